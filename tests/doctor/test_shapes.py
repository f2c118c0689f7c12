"""`langmem-shape` and `deepagents-shape`: what one library writes and another cannot read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from memctl.doctor import shapes
from memctl.doctor.finding import Status
from memctl.doctor.shapes import shape_of, unreadable, wrapped
from memctl.model import Item
from tests.contract.backends import RawItem, vector
from tests.doctor.clinic import Clinic, places

TOOL = '{"content": "Ana likes early trains"}'
MANAGER = '{"kind": "Memory", "content": {"content": "Ana is a designer"}}'
OTHER = '{"subject": "home", "fact": "Lisbon"}'


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (b'{"content":"x"}', "tool"),
        (b' { "content" : {"name": "Ana"}}', "tool"),
        (b'{"kind":"Memory","content":{"content":"x"}}', "manager"),
        (b'{"content":{},"kind":"Profile"}', "manager"),
        (b'{"kind":1,"content":{}}', None),
        (b'{"content":"x","created_at":"x"}', None),
        (b'{"kind":"Memory"}', None),
        (b'{"contents":"x"}', None),
        (b'{"content":', None),
        (b'["content"]', None),
        (b"{}", None),
        (None, None),
    ],
)
def test_who_wrote_it(value: bytes | None, shape: str | None) -> None:
    assert shape_of(value) == shape


def test_wrapping_keeps_the_text_as_it_is_spelled() -> None:
    assert (
        wrapped(b'{"content": "caf\\u00e9 \\/"}')
        == b'{"kind":"Memory","content":{"content":"caf\\u00e9 \\/"}}'
    )


def test_what_is_no_text_becomes_one() -> None:
    value = wrapped(b'{"content": {"name": "Ana"}}')
    assert msgspec.json.decode(value) == {"kind": "Memory", "content": {"content": '{"name": "Ana"}'}}
    assert shape_of(value) == "manager"


class TestLangmem:
    def test_the_tool_is_found_before_and_behind_and_below_the_manager(self, clinic: Clinic) -> None:
        clinic.backend.insert(
            [
                RawItem("m", "1-before", TOOL),
                RawItem("m", "2-manager", MANAGER),
                RawItem("m", "3-behind", TOOL),
                RawItem("m", "4-other", OTHER),
                RawItem("m-x", "beside", TOOL),
                RawItem("m.x", "below", TOOL),
                RawItem("m.x.y", "deep", TOOL),
                RawItem("n", "elsewhere", TOOL),
                RawItem("n.x", "manager below", MANAGER),
            ]
        )
        finding = clinic.finding("langmem-shape")
        assert finding.count == 4
        assert places(finding) == [("m", "1-before"), ("m", "3-behind"), ("m.x", "below"), ("m.x.y", "deep")]
        clinic.heal("langmem-shape")
        assert clinic.finding("langmem-shape").status is Status.OK
        wrong = [item.key for item in clinic.items() if shape_of(item.value) == "tool"]
        assert wrong == ["beside", "elsewhere"]

    @pytest.mark.parametrize("space", ["", " ", "\n", "\t", "\r\n  "])
    def test_however_it_is_spaced(self, sqlite_clinic: Clinic, space: str) -> None:
        tool, manager = (
            value.replace("{", f"{space}{{{space}").replace(": ", f"{space}:") for value in (TOOL, MANAGER)
        )
        sqlite_clinic.backend.insert([RawItem("m", "1", tool), RawItem("m", "2", manager)])
        assert sqlite_clinic.finding("langmem-shape").count == 1

    def test_a_file_is_no_tools_item(self, sqlite_clinic: Clinic) -> None:
        sqlite_clinic.backend.insert([RawItem("m", "/notes.md", TOOL), RawItem("m", "manager", MANAGER)])
        assert sqlite_clinic.finding("langmem-shape").status is Status.OK
        assert [healed.items for healed in sqlite_clinic.heal("langmem-shape").healed] == [0]

    @pytest.mark.parametrize("ns", ["m.x", "*.x", "m.*"])
    def test_a_manager_outside_of_what_is_examined(self, sqlite_clinic: Clinic, ns: str) -> None:
        sqlite_clinic.backend.insert([RawItem("m", "manager", MANAGER), RawItem("m.x", "below", TOOL)])
        assert places(sqlite_clinic.finding("langmem-shape", ns=ns)) == [("m.x", "below")]
        sqlite_clinic.heal("langmem-shape", ns=ns)
        assert sqlite_clinic.finding("langmem-shape").status is Status.OK

    def test_everything_but_the_value_stays(self, clinic: Clinic) -> None:
        expires = "2099-01-01T00:00:00.000000Z"
        tool = RawItem("m", "1", TOOL, expires_at=expires, ttl_minutes=60, vectors=(vector("content"),))
        clinic.backend.insert([tool, RawItem("m", "2", MANAGER)])
        before = clinic.items()
        clinic.heal("langmem-shape", is_rehearsal=True)
        assert clinic.items() == before
        clinic.heal("langmem-shape")
        [after, manager] = clinic.items()
        assert manager == before[1]
        assert without_value(after) == without_value(before[0])
        assert msgspec.json.decode(after.value or b"") == {
            "kind": "Memory",
            "content": {"content": "Ana likes early trains"},
        }

    @pytest.mark.parametrize("remembered", [0, 1, 9])
    def test_the_second_pass_knows_as_much_as_the_first(
        self, sqlite_clinic: Clinic, monkeypatch: pytest.MonkeyPatch, remembered: int
    ) -> None:
        monkeypatch.setattr(shapes, "_REMEMBERED", remembered)
        for prefix in ("a", "b", "c"):
            sqlite_clinic.backend.insert([RawItem(prefix, "1", TOOL), RawItem(prefix, "2", MANAGER)])
        sqlite_clinic.backend.insert([RawItem("d", "1", TOOL)])
        assert [healed.items for healed in sqlite_clinic.heal("langmem-shape").healed] == [3]
        assert sqlite_clinic.finding("langmem-shape").status is Status.OK

    def test_more_than_the_samples_are_counted(self, sqlite_clinic: Clinic) -> None:
        tools = [RawItem("m", f"{number:03}", TOOL) for number in range(40)]
        sqlite_clinic.backend.insert([*tools, RawItem("m", "manager", MANAGER)])
        finding = sqlite_clinic.finding("langmem-shape")
        assert finding.count == 40
        assert finding.octets == 40 * len(TOOL)
        assert len(finding.samples) == 5


def without_value(item: Item) -> Item:
    return msgspec.structs.replace(item, value=None, size=0)


TIMES = {"created_at": "2026-10-01T08:00:00+00:00", "modified_at": "2026-10-01T08:00:00+00:00"}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"content": "text", **TIMES}, None),
        ({"content": "", "encoding": "utf-8"}, None),
        ({"content": ["two", "lines"], **TIMES}, None),
        ({"content": [], **TIMES}, None),
        ({"content": "eA==", "encoding": "base64"}, None),
        ({"content": "x", "encoding": "base64"}, "its content is not base64, as it says"),
        ({"content": {"open": []}}, "its content is an object"),
        ({"content": ["a", 1]}, "its content is a list of something else than lines"),
        ({"content": True}, "its content is true or false"),
        ({"content": 1.5}, "its content is a number"),
        ({"content": None}, "has no content"),
        (TIMES, "has no content"),
        ({"method": "GET"}, None),
        ([1], None),
        ("text", None),
    ],
)
def test_what_a_backend_of_deep_agents_reads(value: Any, fault: str | None) -> None:
    assert unreadable(value) == fault


def test_only_what_lies_under_a_path_is_a_file(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert(
        RawItem("fs", key, '{"content": {"open": []}}') for key in ("/todo.md", "todo.md", "/a/b.md")
    )
    finding = sqlite_clinic.finding("deepagents-shape")
    assert finding.count == 2
    assert places(finding) == [("fs", "/a/b.md"), ("fs", "/todo.md")]
