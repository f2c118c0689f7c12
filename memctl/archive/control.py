"""The lines of an archive that hold no item, read."""

from __future__ import annotations

import msgspec
import orjson

from memctl.archive.format import VERSION, Header, Unreadable

_LOOKED_AT = 1024 * 1024
_SHOWN = 40


class BlockLine(msgspec.Struct, frozen=True):
    """What follows every 1,000 lines."""

    block: int
    lines: int
    sha256: str
    last: tuple[str, str]


class EndLine(msgspec.Struct, frozen=True):
    """The last line."""

    end: bool
    items: int
    vectors: int
    sha256: str


class _HeaderLine(Header, frozen=True):
    memctl_archive: int = 0


read_block = msgspec.json.Decoder(BlockLine).decode
read_end = msgspec.json.Decoder(EndLine).decode
_HEADER = msgspec.json.Decoder(_HeaderLine).decode


def header_of(line: bytes) -> Header | None:
    """Return the header that a first line is, None where it is none."""
    if b'"memctl_archive"' not in line[:_LOOKED_AT]:
        return None
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError:
        if line.startswith(b'{"memctl_archive":'):
            raise Unreadable(
                "the first line of the archive was changed: it is no JSON", code="damaged"
            ) from None
        return None
    version = members.get("memctl_archive") if isinstance(members, dict) else None
    if version is None:
        return None
    if type(version) is not int:
        spelled = orjson.dumps(version).decode()
        raise Unreadable(
            f"the first line of the archive was changed: a version is a number, not {spelled[:_SHOWN]}",
            code="damaged",
        )
    if version != VERSION:
        raise Unreadable(
            f"the archive is of version {version}, and this memctl reads version {VERSION}",
            hint="a newer memctl reads it" if version > VERSION else None,
            code="version",
        )
    try:
        read = _HEADER(line)
    except msgspec.DecodeError as error:
        raise Unreadable(f"the first line of the archive was changed: {error}", code="damaged") from None
    return Header(**{name: getattr(read, name) for name in Header.__struct_fields__})
