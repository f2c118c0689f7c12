"""What all checks share: the runner, the paths of an index, and commands that can be pasted."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langgraph.store.base import get_text_at_path

from memctl.doctor import CHECKS, check_class
from memctl.doctor import runner as running
from memctl.doctor.check import Check, Patient, Settings, can_repair, defines
from memctl.doctor.finding import Finding, Level, Status
from memctl.doctor.paths import produces
from memctl.doctor.runner import examine
from memctl.doctor.vectors import VectorShape
from memctl.doctor.wording import command
from memctl.errors import Busy, MemctlError
from memctl.model import Detail, Item, Vector
from memctl.namespaces import parse
from memctl.store import Capability

NOW = "2026-11-30T08:00:00.000000Z"


def item(prefix: str, key: str, size: int = 10) -> Item:
    return Item(prefix, key, b"{}", size, NOW, NOW, None, None)


class Shelf:
    """A store of a list of items, or of an error behind them."""

    kind, address, moved, lock_seconds = "shelf", "shelf", False, 0.0
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, *items: Item, error: Exception | None = None) -> None:
        self.items, self.error = items, error
        self.asked: list[dict[str, Any]] = []

    def now(self) -> str:
        return NOW

    def scan(self, scope: object, **options: Any) -> Iterator[Item]:
        self.asked.append(options)
        yield from self.items
        if self.error:
            raise self.error


class Recorder(Check):
    """Writes down what it is shown."""

    id, level, summary = "recorder", Level.NOTE, "what it is shown"

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self.seen: list[str] = []

    def namespace(self, prefix: str) -> None:
        self.seen.append(f"[{prefix}]")

    def item(self, item: Item) -> None:
        self.seen.append(item.key)

    def finish(self) -> Finding:
        return self.found(" ".join(self.seen), brief="", count=len(self.seen))


class Grumbler(Recorder):
    """Fails at one item."""

    id = "grumbler"

    def item(self, item: Item) -> None:
        if item.key == "b":
            raise ValueError("not this one")
        super().item(item)


class Needy(Recorder):
    """Needs what a shelf has not."""

    id = "needy"
    needs = frozenset({Capability.EXPIRY})


class Reader(Recorder):
    """Looks into values, and at vectors."""

    id = "reader"
    values = True
    vectors = Detail.FULL


def results(store: Any, *checks: type[Check], **settings: Any) -> dict[str, Finding]:
    return {each.id: each for each in examine(store, checks, Settings(NOW, **settings))}


def test_namespaces_come_before_their_items_and_all_in_order() -> None:
    shelf = Shelf(item("x", "a"), item("x", "b"), item("y", "a"))
    assert results(shelf, Recorder)["recorder"].message == "[x] a b [y] a"


def test_many_items_are_handed_over_in_bounded_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "RUN_OCTETS", 2_000)
    lengths: list[int] = []

    class Measuring(Recorder):
        def items(self, items: Sequence[Item]) -> None:
            lengths.append(len(items))
            super().items(items)

    shelf = Shelf(*(item("x", str(number), size=900) for number in range(5)), item("y", "0", size=10_000_000))
    assert results(shelf, Measuring)["recorder"].message == "[x] 0 1 2 3 4 [y] 0"
    assert lengths == [2, 2, 1, 1]


def test_who_fails_is_told_and_the_others_see_everything() -> None:
    shelf = Shelf(item("x", "a"), item("x", "b"), item("x", "c"))
    found = results(shelf, Grumbler, Recorder)
    assert found["recorder"].message == "[x] a b c"
    assert found["grumbler"].status is Status.FAILED
    assert "not this one" in found["grumbler"].message


def test_a_store_that_ends_early_fails_those_who_read_it() -> None:
    class Glance(Check):
        id, level, summary = "glance", Level.NOTE, "reads nothing"

        def finish(self) -> Finding:
            return self.fine()

    found = results(Shelf(item("x", "a"), error=MemctlError("damaged")), Recorder, Glance)
    assert found["recorder"].status is Status.FAILED
    assert "damaged" in found["recorder"].message
    assert found["glance"].status is Status.OK
    with pytest.raises(Busy):
        results(Shelf(item("x", "a"), error=Busy("locked")), Recorder)


def test_what_a_store_cannot_have_is_skipped_and_why() -> None:
    found = results(Shelf(), Needy)["needy"]
    assert (found.status, found.message) == (Status.SKIPPED, "this store has no TTL columns")


def test_the_store_is_read_once_with_no_more_than_is_needed() -> None:
    shelf = Shelf(item("x", "a"))
    results(shelf, Recorder, Recorder)
    assert shelf.asked == [{"values": False, "vectors": Detail.NONE}]
    shelf = Shelf(item("x", "a"))
    shelf.capabilities = frozenset({Capability.VECTORS})
    results(shelf, Recorder, Reader)
    assert shelf.asked == [{"values": True, "vectors": Detail.FULL}]


def test_wildcards_choose_among_the_items() -> None:
    shelf = Shelf(item("a.x", "1"), item("b.y", "2"), item("c.x.z", "3"))
    assert results(shelf, Recorder, pattern=parse("*.x"))["recorder"].message == "[a.x] 1 [c.x.z] 3"


def test_samples_are_few() -> None:
    class Sampler(Recorder):
        def item(self, item: Item) -> None:
            self.sample(item.prefix, item.key, "!")

    shelf = Shelf(*(item("x", str(number)) for number in range(9)))
    assert [sample.key for sample in results(shelf, Sampler)["recorder"].samples] == list("01234")


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_says_what_it_is(name: str) -> None:
    check = check_class(name)
    assert check.id == name
    assert check.summary
    assert not check.summary.endswith(".")
    assert (check.remedy is not None) == can_repair(check)
    assert defines(check, "finish")
    assert not check.must_save or check.remedy


WORDS = [
    "a b",
    "caf\udce9",
    "x\ny",
    "it's",
    "-k",
    "\u202ehi",
    "日本",
    "\\n",
    "a\tb'\\",
    "$HOME",
    "`ls`",
    "*",
    "",
]


def test_a_command_is_read_back_by_a_shell() -> None:
    printed = subprocess.run(
        ["bash", "-c", command("printf", r"%s\0", *WORDS)], capture_output=True, check=True
    ).stdout
    assert printed == b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in WORDS)


def test_names_that_look_like_options_come_behind_two_dashes() -> None:
    patient = Patient(Shelf(), Settings(NOW, invocation=("memctl", "-s", "my db"), pattern=parse("-a.*")))  # type: ignore[arg-type]
    assert patient.command("rm", names=("a", "k")) == "memctl -s 'my db' rm a k"
    assert patient.command("rm", names=("a", "-k")) == "memctl -s 'my db' rm -- a -k"
    assert patient.fix_command("values", "--save", "x") == (
        "memctl -s 'my db' doctor --fix values --save x -- '-a.*'"
    )


VALUE = {
    "text": "t", "n": 1, "none": None, "flag": False, "list": ["a", "b"], "one": ["a"], "empty": [],
    "nested": {"a": {"b": "c"}, "list": [{"x": "1"}, {"x": "2"}, {"y": "3"}]}, "a.b": "dotted", "0": "zero",
}  # fmt: skip
PATHS = [
    "$", "text", "n", "none", "flag", "list", "list[*]", "list[0]", "list[-1]", "list[7]", "one[*]", "empty[*]",
    "nested.a.b", "nested.list[*].x", "nested.list[*].y", "nested.*", "*", "{text,n}", "{text,missing}",
    "{nested.a,text}", "a.b", "missing", "missing[*].x", "text[*]", "nested.a[*]", "none.x", "list.*",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_the_names_of_vectors_are_those_that_the_library_gives(path: str) -> None:
    texts = get_text_at_path(VALUE, path)
    given = {path if len(texts) == 1 else f"{path}.{place}" for place in range(len(texts))}
    asked = {path, *(f"{path}.{place}" for place in range(12))}
    paths = {name for name in asked if len(get_text_at_path(VALUE, name)) == 1}  # `a.0` is a path as well
    assert {name for name in asked if produces(VALUE, name)} == given | paths


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ([1.0, -2.0], None),
        ([0.0, 1e-40], None),
        ([3.4e38, -3.4e38, 3.4e38], None),
        ([0.0, -0.0], "all zero"),
        ([float("nan"), 1.0], "NaN"),
        ([1.0, float("nan")], "NaN"),
        ([float("inf")] * 3, "infinite numbers"),
        ([0.0, float("-inf"), 0.0], "infinite numbers"),
    ],
)
def test_what_is_wrong_with_an_embedding(numbers: list[float], fault: str | None) -> None:
    good = Vector("text", len(numbers), struct.pack(f"<{len(numbers)}f", *([1.0] * len(numbers))), NOW, NOW)
    vector = Vector("text", len(numbers), struct.pack(f"<{len(numbers)}f", *numbers), NOW, NOW)
    shelf = Shelf(
        Item("x", "good", b"{}", 2, NOW, NOW, None, None, (good,)),
        Item("x", "other", b"{}", 2, NOW, NOW, None, None, (vector,)),
    )
    shelf.capabilities = frozenset({Capability.VECTORS})
    found = results(shelf, VectorShape)["vector-shape"]
    assert found.count == (0 if fault is None else 1)
    assert [sample.detail for sample in found.samples] == ([] if fault is None else [f"text: {fault}"])
