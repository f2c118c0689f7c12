"""`memctl put`: where the value comes from, what is refused, and that no update is lost."""

from __future__ import annotations

import json
import shlex
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PREFS, SEAT, MakeStore
from tests.contract.backends import RawItem, SqliteBackend, vector
from tests.invocation import Memctl
from tests.writers import postgres_store, sqlite_store


def value(memctl: Memctl, store: Path, prefix: str = PREFS, key: str = "seat") -> str:
    return memctl("-s", store, "get", prefix, key, "--value").out.rstrip("\n")


def editor(folder: Path, code: str) -> dict[str, str]:
    """An editor that does this to the file `path`; `n` counts how often it was called."""
    script = folder / "editor.py"
    script.write_text(
        "import sys, pathlib\npath = pathlib.Path(sys.argv[-1])\ncalls = pathlib.Path(__file__ + '.calls')\n"
        "n = len(calls.read_text()) if calls.exists() else 0\ncalls.write_text('x' * (n + 1))\n" + code
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"EDITOR": f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"}


class TestValue:
    def test_where_it_comes_from(self, memctl: Memctl, store: Path) -> None:
        (memctl.folder / "v.json").write_bytes(b'\xef\xbb\xbf{"from":\n "file"}\n')
        memctl.json("-s", store, "put", "a", "k", "@v.json")
        assert value(memctl, store, "a", "k") == '{"from":"file"}'
        memctl.json("-s", store, "put", "a", "k", "-", stdin=b' {"from": "stdin"} ')
        assert value(memctl, store, "a", "k") == '{"from":"stdin"}'
        assert memctl.refuse("-s", store, "put", "a", "k", "@nowhere", code=2)["code"] == "usage"
        assert memctl.refuse("-s", store, "put", "a", "k", code=2)["code"] == "usage"

    def test_every_digit_stays(self, memctl: Memctl, store: Path) -> None:
        text = '{"big":18446744073709551615,"least":-9223372036854775808,"long":1234567890123456789.01234,"exact":1.10,'
        text += '"tiny":1e-400,"again":-0.0}'
        memctl.json("-s", store, "put", "a", "k", text)
        memctl.json("-s", store, "put", "a", "k", '{"new":0.10}', "--merge")
        assert value(memctl, store, "a", "k") == text[:-1] + ',"new":0.10}'

    @pytest.mark.parametrize(
        "text", ["[1]", "1", "null", "{", '{"a":NaN}', "{'a': 1}", '{"a":"\\ud800"}', "", '{"a":1} {"b":2}']
    )
    def test_what_is_no_object(self, memctl: Memctl, store: Path, text: str) -> None:
        before = store.read_bytes()
        assert (
            memctl.refuse("-s", store, "put", "a", "k", "-", stdin=text.encode(), code=2)["code"]
            == "invalid-value"
        )
        assert store.read_bytes() == before

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('{"x": 1e400}', "x: a number past what a double holds"),
            ('{"a": {"b": [1, -1e999]}}', "a.b[1]: a number past"),
            ('{"x": 1e400, "x": 1}', "number is infinity"),
            ('{"x": 18446744073709551616}', "x: a whole number past 64 bits"),
            ('{"x": -9223372036854775809}', "x: a whole number past 64 bits"),
            (f'{{"x": 1{"0" * 5000}}}', "x: a whole number past 64 bits"),
            (f'{{"x": {"[" * 254}{"]" * 254}}}', "nested deeper than 254 levels"),
            (f'{{"x": {"[" * 20_000}{"]" * 20_000}}}', "nested"),
        ],
    )
    def test_what_an_agent_could_not_write_or_read(
        self, memctl: Memctl, store: Path, text: str, said: str
    ) -> None:
        before = store.read_bytes()
        error = memctl.refuse("-s", store, "put", "a", "k", "-", stdin=text.encode(), code=2)
        assert error["code"] == "invalid-value"
        assert said in error["message"]
        assert store.read_bytes() == before

    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    def test_the_library_agrees_about_values(
        self, memctl: Memctl, kind: str, request: pytest.FixtureRequest
    ) -> None:
        sample: Any = request.getfixturevalue(f"{kind}_sample")
        address = sample if kind == "sqlite" else sample.url
        values: list[Any] = [2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 1.5, True]
        for levels in (253, 254):
            nested: Any = []
            for _ in range(levels - 1):
                nested = [nested]
            values.append(nested)
        with sqlite_store(sample) if kind == "sqlite" else postgres_store(address) as agent:
            for number, value in enumerate(values):
                try:
                    agent.put(("z",), "k", {"x": value})
                    is_taken = True
                except Exception:  # the library's are of many kinds
                    is_taken = False
                text = json.dumps({"x": value})
                outcome = memctl("-s", address, "put", "y", str(number), "-", stdin=text.encode())
                assert outcome.code == (0 if is_taken else 2), (value, outcome.err)
                found = agent.get(("y",), str(number))
                assert (found.value if found else None) == ({"x": value} if is_taken else None)
        memctl.refuse("-s", address, "put", "y", "k", '{"x": 1e400}', code=2)

    def test_what_merging_would_make_of_it(self, memctl: Memctl, store: Path) -> None:
        put = ("-s", store, "put", PREFS, "seat")
        SqliteBackend(store.parent).execute("UPDATE store SET value = '{\"x\": 1e400}' WHERE key = 'seat'")
        assert memctl.refuse(*put, '{"y": 1}', "--merge", code=2)["code"] == "invalid-value"
        memctl.json(*put, f'{{"x": null, "y": {"[" * 253}{"]" * 253}}}', "--merge")
        variables = editor(memctl.folder, "path.write_text('{\"y\": 1e400}')")
        error = memctl.refuse(*put, "--edit", code=2, variables=variables)
        assert error["message"].startswith("y: a number past")

    @pytest.mark.parametrize("ns", ["a..b", ".a", "a.", "", "langgraph", "langgraph.x", "a.*"])
    def test_namespaces_that_the_library_refuses(self, memctl: Memctl, store: Path, ns: str) -> None:
        error = memctl.refuse("-s", store, "put", ns, "k", "{}", code=2)
        assert error["code"] == ("usage" if "*" in ns else "invalid-namespace")

    def test_the_library_agrees_about_namespaces(self) -> None:
        from langgraph.store.base import InvalidNamespaceError, _validate_namespace

        from memctl.admission import check_namespace
        from memctl.errors import UsageError

        for prefix in (
            "a",
            "a.b",
            "a..b",
            ".a",
            "a.",
            "",
            "langgraph",
            "langgraph.a",
            "a.langgraph",
            "a\0",
            " ",
            "é",
        ):
            refusals = []
            for check, error in (
                (lambda text: _validate_namespace(tuple(text.split("."))), InvalidNamespaceError),
                (check_namespace, UsageError),
            ):
                try:
                    check(prefix)
                    refusals.append(False)
                except error:
                    refusals.append(True)
            assert refusals[0] == refusals[1], prefix


class TestWriting:
    def test_it_never_asks_and_says_what_became_stale(self, memctl: Memctl, store: Path) -> None:
        outcome = memctl("-s", store, "put", PREFS, "seat", '{"value": "window"}')
        assert outcome.code == 0
        assert "overwritten" in outcome.out
        assert "1 vector of the former value removed" in outcome.out

    def test_a_rehearsal(self, memctl: Memctl, store: Path) -> None:
        before = store.read_bytes()
        report = memctl.json("-s", store, "put", PREFS, "seat", "{}", "--dry-run", "--save", "kept.jsonl")
        assert (report["items"], report["vectors"], report["created"], report["dry_run"]) == (
            1,
            1,
            False,
            True,
        )
        assert store.read_bytes() == before

    def test_ttl(self, memctl: Memctl, store: Path) -> None:
        report = memctl.json("-s", store, "put", "a", "k", "{}", "--ttl", "45d")
        assert (report["expires_at"], report["ttl_minutes"]) == ("2027-01-14T08:00:00.000000Z", 64_800)
        report = memctl.json("-s", store, "put", PREFS, "meal", "{}")
        assert (report["expires_at"], float(report["ttl_minutes"])) == ("2026-11-30T09:30:30.000000Z", 90.5)
        assert (
            memctl.refuse("-s", store, "put", "a", "k", "{}", "--ttl", "1d", "--no-ttl", code=2)["code"]
            == "usage"
        )

    def test_an_expiry_without_a_ttl_stays(self, memctl: Memctl, store: Path) -> None:
        memctl.json("-s", store, "expire", PREFS, "seat", "--at", "2027-01-01")
        assert (
            memctl.json("-s", store, "put", PREFS, "seat", "{}")["expires_at"]
            == "2027-01-01T00:00:00.000000Z"
        )

    def test_a_ttl_past_the_calendar(self, memctl: Memctl, store: Path) -> None:
        for arguments in (("put", "a", "k", "{}"), ("expire", PREFS, "seat")):
            for ttl in ("999999999d", "8000y"):
                error = memctl.refuse("-s", store, *arguments, "--ttl", ttl, code=2)
                assert "past the year 9999" in error["message"]

    @pytest.mark.parametrize(
        ("new", "kept"),
        [
            (
                '{"text": "t", "tags": ["a", "b", "c"], "more": [1]}',
                {"tags[*].0", "tags[*].1", "tags[*].2", "text"},
            ),
            ('{"text": "t", "tags": ["a", "b"]}', {"tags[*].0", "tags[*].1", "text"}),
            ('{"text": "t", "tags": ["a"]}', {"text"}),
            ('{"text": "other", "tags": ["b", "a", "c"]}', {"tags[*].2"}),
            ('{"tags": ["a", "b", "c"], "text": "t"}', {"$", "tags[*].0", "tags[*].1", "tags[*].2", "text"}),
        ],
    )
    def test_vectors_of_the_same_text_stay_and_are_fresh(
        self, memctl: Memctl, make_store: MakeStore, new: str, kept: set[str]
    ) -> None:
        fields = ("$", "tags[*].0", "tags[*].1", "tags[*].2", "text")
        value = '{"text": "t", "tags": ["a", "b", "c"]}'
        written = "2026-11-30T07:00:00.000000Z"
        vectors = tuple(replace(vector(field), updated_at=written) for field in fields)
        store = make_store([RawItem("a", "k", value, updated_at=written, vectors=vectors)])
        assert memctl.json("-s", store, "put", "a", "k", new)["vectors"] == len(vectors) - len(kept)
        found = memctl.json("-s", store, "get", "a", "k", "--vectors")["vectors"]
        assert {each["field"] for each in found} == kept
        assert memctl.json("-s", store, "doctor", "--check", "stale-vectors")["checks"][0]["status"] == "ok"

    def test_a_vector_that_was_stale_still_looks_it(self, memctl: Memctl, make_store: MakeStore) -> None:
        old = replace(vector("text"), updated_at="2026-11-30T06:00:00.000000Z")
        item = RawItem("a", "k", '{"text": "t"}', updated_at="2026-11-30T07:00:00.000000Z", vectors=(old,))
        store = make_store([item])
        memctl.json("-s", store, "put", "a", "k", '{"n": 1}', "--merge")
        assert (
            memctl.json("-s", store, "doctor", "--check", "stale-vectors", code=4)["checks"][0]["count"] == 1
        )

    def test_vectors_of_an_item_that_is_gone(self, memctl: Memctl, store: Path) -> None:
        SqliteBackend(store.parent).execute("DELETE FROM store WHERE key = 'meal'")
        put = ("-s", store, "put", PREFS, "meal", "{}", "--save", "kept.jsonl")
        assert memctl.json(*put, "--dry-run")["vectors"] == 2
        outcome = memctl(*put)
        assert "made; 2 vectors of an item that is gone removed" in outcome.out
        kept = [json.loads(line) for line in (memctl.folder / "kept.jsonl").read_text().splitlines()]
        assert (kept[1]["key"], len(kept[1]["vectors"]), kept[1]["vectors_only"]) == ("meal", 2, True)
        assert memctl.json("-s", store, "put", PREFS, "other", "{}")["vectors"] == 0

    def test_merging_into_nothing(self, memctl: Memctl, store: Path) -> None:
        memctl.json("-s", store, "put", "a", "k", '{"x": {"y": null}, "z": null}', "--merge")
        assert value(memctl, store, "a", "k") == '{"x":{}}'
        SqliteBackend(store.parent).execute("UPDATE store SET value = '[1]' WHERE key = 'k'")
        assert memctl.refuse("-s", store, "put", "a", "k", "{}", "--merge", code=1)["code"] == "no-object"

    def test_guarded(self, memctl: Memctl, store: Path) -> None:
        put = ("-s", store, "put", PREFS)
        for key, since in (("seat", "2026-11-30T07:00:05Z"), ("nothing", "2027-01-01"), ("seat", "1h")):
            error = memctl.refuse(*put, key, "{}", "--if-unchanged-since", since, code=1)
            assert error["code"] == "changed"
        assert value(memctl, store) == SEAT
        memctl.json(*put, "seat", "{}", "--if-unchanged-since", "2026-11-30T07:00:06Z")
        assert value(memctl, store) == "{}"

    def test_what_it_overwrites_can_be_kept(self, memctl: Memctl, store: Path) -> None:
        memctl.json("-s", store, "put", PREFS, "seat", "{}", "--save", "kept.jsonl")
        memctl.json("-s", store, "import", "kept.jsonl", "--on-conflict", "overwrite", "--yes")
        assert value(memctl, store) == SEAT
        assert memctl.json("-s", store, "get", PREFS, "seat", "--vectors")["vectors"]


class TestEditing:
    def test_what_is_edited(self, memctl: Memctl, store: Path) -> None:
        variables = editor(memctl.folder, "path.write_text(path.read_text().replace('aisle', 'window'))")
        assert memctl.json("-s", store, "put", PREFS, "seat", "--edit", variables=variables)["items"] == 1
        assert json.loads(value(memctl, store)) == json.loads(SEAT.replace("aisle", "window"))

    def test_left_as_it_was(self, memctl: Memctl, store: Path) -> None:
        before = store.read_bytes()
        for code in ("", "path.write_text(path.read_text() + ' ')"):
            variables = editor(memctl.folder, code)
            assert memctl.json("-s", store, "put", PREFS, "seat", "--edit", variables=variables)["items"] == 0
        assert store.read_bytes() == before

    def test_left_as_it_was_with_another_ttl(self, memctl: Memctl, store: Path) -> None:
        edit = ("-s", store, "put", PREFS, "seat", "--edit")
        variables = editor(memctl.folder, "")
        assert memctl.json(*edit, "--ttl", "30d", variables=variables)["ttl_minutes"] == 43_200
        assert memctl.json(*edit, "--no-ttl", variables=variables)["expires_at"] is None
        assert json.loads(value(memctl, store)) == json.loads(SEAT)
        assert memctl.json("-s", store, "get", PREFS, "seat", "--vectors")["vectors"]

    def test_a_new_item(self, memctl: Memctl, store: Path) -> None:
        variables = editor(memctl.folder, "assert path.read_text() == '{}\\n'\npath.write_text('{\"n\": 1}')")
        assert memctl.json("-s", store, "put", "a", "k", "--edit", variables=variables)["created"] is True

    def test_no_json_is_kept(self, memctl: Memctl, store: Path) -> None:
        variables = editor(memctl.folder, "path.write_text('{\"half')")
        outcome = memctl("-s", store, "put", PREFS, "seat", "--edit", variables=variables)
        assert outcome.code == 2
        kept = Path(outcome.err.partition("is kept in ")[2].splitlines()[0])
        assert kept.read_text() == '{"half'
        kept.unlink()
        assert value(memctl, store) == SEAT

    def test_on_a_terminal_it_is_offered_again(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memctl.cli.environment import Environment

        monkeypatch.setattr(Environment, "is_terminal", lambda _self, _stream: True)
        variables = editor(memctl.folder, "path.write_text('{\"n\": 1' + '}' * n)")
        outcome = memctl("-s", store, "put", PREFS, "seat", "--edit", variables=variables, stdin=b"\n")
        assert outcome.code == 0, outcome.err
        assert value(memctl, store) == '{"n":1}'

    def test_somebody_else_was_quicker(self, memctl: Memctl, store: Path) -> None:
        variables = editor(
            memctl.folder,
            f"import sqlite3\nwith sqlite3.connect({str(store)!r}) as c:\n"
            "    c.execute(\"UPDATE store SET value = '{}', updated_at = '2026-11-30 07:59:59' WHERE key = 'seat'\")\n"
            "path.write_text('{\"mine\": 1}')",
        )
        outcome = memctl("-s", store, "put", PREFS, "seat", "--edit", variables=variables)
        assert outcome.code == 1
        assert "somebody else has written it meanwhile" in outcome.err
        kept = Path(outcome.err.partition("is kept in ")[2].splitlines()[0])
        assert kept.read_text() == '{"mine": 1}'
        kept.unlink()
        assert value(memctl, store) == "{}"

    def test_an_editor_that_fails(self, memctl: Memctl, store: Path) -> None:
        variables = editor(memctl.folder, "sys.exit(3)")
        assert memctl.refuse("-s", store, "put", PREFS, "seat", "--edit", code=1, variables=variables)[
            "code"
        ] == ("editor-failed")
        variables = {"VISUAL": "/no/such/editor"}
        assert (
            memctl.refuse("-s", store, "put", PREFS, "seat", "--edit", code=2, variables=variables)["code"]
            == "usage"
        )


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_library_reads_what_was_put(memctl: Memctl, kind: str, request: pytest.FixtureRequest) -> None:
    sample: Any = request.getfixturevalue(f"{kind}_sample")
    address = sample if kind == "sqlite" else sample.url
    opened = sqlite_store(sample) if kind == "sqlite" else postgres_store(address)
    namespace, value = ("users", "bo", "prefs"), {"text": "naïve 🙂", "n": [1, None], "big": 2**60}
    with opened as agent:
        before = agent.get(namespace, "seat")
        memctl.json("-s", address, "put", ".".join(namespace), "seat", "-", stdin=json.dumps(value).encode())
        found = agent.get(namespace, "seat")
        assert found is not None
        assert before is not None
        assert (found.value, found.created_at) == (value, before.created_at)
        assert str(found.updated_at) > str(before.updated_at) or kind == "sqlite"  # whose clock is the test's
        agent.put(namespace, "seat", {"again": True})
        assert memctl.json("-s", address, "get", ".".join(namespace), "seat")["value"] == {"again": True}
