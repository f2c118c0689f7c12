"""A line member by member, slowly: to say what is wrong with it, or because JSON allows it after all.

An escaped lone surrogate inside a value, and numbers of any length, are what `msgspec` refuses and JSON does
not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from memctl.archive.rows import Fault, Row

_WHAT = {
    "namespace": "an array of labels, which are text, or text with dots",
    "key": "text",
    "created_at": "a time in text, or null",
    "updated_at": "a time in text, or null",
    "expires_at": "a time in text, or null",
    "ttl_minutes": "a number of minutes, or null",
    "vectors": "an array of objects with `field` and `embedding` (base64 text or numbers)",
    "vectors_only": "true or false",
}
_MEMBERS = {
    field.name: msgspec.json.Decoder(field.type)
    for field in msgspec.structs.fields(Row)
    if field.name != "value"
}
_BLANKS = re.compile(r"[ \t\n\r]*").match
_SURROGATE = re.compile("[\ud800-\udfff]").search


def _refuse(name: str) -> NoReturn:
    raise Fault(f"no valid JSON: {name} is no number in JSON")


_SCAN = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def read_slowly(line: bytes) -> Row:
    """Return a line's members, or raise Fault for what is wrong with them, in words."""
    members = members_of(line)
    for required in ("namespace", "key"):
        if required not in members:
            raise Fault(f"`{required}` is missing")
    given: dict[str, Any] = {}
    for name, octets in members.items():
        if name == "value":
            given[name] = msgspec.Raw(octets)
        elif name in _MEMBERS:
            try:
                given[name] = _MEMBERS[name].decode(octets)
            except (msgspec.DecodeError, RecursionError):
                raise Fault(_complaint(name, octets)) from None
    return Row(**given)


def _complaint(name: str, octets: bytes) -> str:
    if name in ("namespace", "key") and _SURROGATE("".join(_texts(_SCAN.decode(octets.decode())))):
        return f"`{name}` has a lone surrogate, which is no text that a database holds"
    what = _WHAT.get(name, "what an archive has there")
    return f"`{name}` has to be {what}: {shortened(octets.decode())}"


def _texts(value: Any) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def members_of(line: bytes) -> Mapping[str, bytes]:
    """Return the members of an object, each as its own JSON text. Raises Fault in words."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Fault(f"invalid UTF-8 at octet {error.start + 1:,}") from None
    members: dict[str, bytes] = {}
    try:
        place = _end_of_blanks(text, 0)
        if text[place : place + 1] != "{":
            _SCAN.decode(text)
            raise Fault(f"not an object: {shortened(text)}")
        place = _end_of_blanks(text, place + 1)
        while text[place : place + 1] != "}":
            if members:
                place = _end_of_blanks(text, _past(text, place, ","))
            _past(text, place, '"')
            name, place = _SCAN.raw_decode(text, place)
            start = _end_of_blanks(text, _past(text, _end_of_blanks(text, place), ":"))
            end = _SCAN.raw_decode(text, start)[1]
            if name in members:
                raise Fault(f"`{name}` stands there twice")
            members[name] = text[start:end].encode()
            place = _end_of_blanks(text, end)
        if _end_of_blanks(text, place + 1) < len(text):
            raise Fault(f"no valid JSON: something follows the object: {shortened(text[place + 1 :])}")
    except json.JSONDecodeError as error:
        raise Fault(f"no valid JSON: {error.msg} at character {error.pos + 1:,}") from None
    except RecursionError:
        raise Fault("nested too deeply to be read") from None
    return members


def _end_of_blanks(text: str, place: int) -> int:
    found = _BLANKS(text, place)
    return found.end() if found else place


def _past(text: str, place: int, mark: str) -> int:
    if text[place : place + 1] != mark:
        raise json.JSONDecodeError(f"{mark!r} is expected", text, place)
    return place + 1


def shortened(text: str) -> str:
    """Return what of a text fits into a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."
