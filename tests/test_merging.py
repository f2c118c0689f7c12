"""JSON Merge Patch: the examples of RFC 7396, and a plain oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.merging import merge

#: RFC 7396, appendix A, as far as both sides are objects, or the target is none.
EXAMPLES = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_examples(target: str, patch: str, result: str) -> None:
    assert merge(target.encode(), patch.encode()) == result.encode()


def oracle(target: Any, patch: Any) -> Any:
    """As the RFC spells it."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = oracle(merged.get(name), value)
    return merged


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcé"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcé"), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_any_two_objects(target: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = merge(json.dumps(target).encode(), json.dumps(patch, indent=1).encode())
    assert json.loads(merged) == oracle(target, patch)
