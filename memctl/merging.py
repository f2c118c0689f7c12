"""JSON Merge Patch (RFC 7396) on JSON text: what is not touched keeps its spelling, every digit of it."""

from __future__ import annotations

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BLANK = b" \t\n\r"


def merge(target: bytes, patch: bytes) -> bytes:
    """Return the object `target` after the object `patch`: null removes a member, an object is merged into one.

    Anything else, a list too, takes the place of what was there. Both are valid JSON; where `target` is no
    object the patch begins with an empty one. Of repeated members the last counts.
    """
    merged = _OBJECT.decode(target) if _is_object(target) else {}
    for name, new in _OBJECT.decode(patch).items():
        text = bytes(new).strip(_BLANK)
        if text == b"null":
            merged.pop(name, None)
        elif _is_object(text):
            merged[name] = msgspec.Raw(merge(bytes(merged.get(name, b"")), text))
        else:
            merged[name] = new
    return msgspec.json.encode(merged)


def _is_object(text: bytes) -> bool:
    return text.lstrip(_BLANK).startswith(b"{")
