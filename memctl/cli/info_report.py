"""A store's description as output: the object that scripts read, and the page that people look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memctl.guard import Guarded, State
from memctl.history import Remembering
from memctl.render import Facts, Report, Section
from memctl.render.units import octets
from memctl.store import Capability, Description, Index, Ledger, Narrow, Store, Table, VectorSetup

_MEANINGS = {
    Capability.EXPIRY: ("items can expire", "no TTL columns: items never expire"),
    Capability.VECTORS: ("items have embeddings", "no embeddings: search finds text, not likeness"),
    Capability.VECTOR_TIMES: (
        "embeddings have times: stale ones show",
        "embeddings have no times of their own",
    ),
    Capability.CASCADE: ("an item's vectors go with it", "a deleted item leaves its vectors behind"),
    Capability.KEEPS_CREATED: ("created_at survives an overwrite", "an overwrite resets created_at"),
    Capability.SNAPSHOT: ("a command reads one moment", "a command reads in parts, so that no writer waits"),
    Capability.TIMES: (
        "created_at and updated_at can be set: a copy keeps them",
        "the store sets created_at and updated_at itself",
    ),
    Capability.RAW_TEXT: ("values are the text that was written", "the database rewrites a value's JSON"),
}
"""What it means that a store has a capability, and that it has not."""

_UNSEEN = {
    Capability.EXPIRY: "an item's expiry does not show through this interface",
    Capability.VECTORS: "embeddings do not show through this interface",
    Capability.VECTOR_TIMES: "embeddings do not show through this interface",
    Capability.CASCADE: "the store looks after its embeddings itself",
    Capability.KEEPS_CREATED: "an overwrite may reset created_at",
    Capability.SNAPSHOT: "a command reads page by page, and says when pages moved",
    Capability.RAW_TEXT: "the store decodes a value's JSON and writes it anew",
}
"""What it means that a store does not show a capability through an interface that shows few."""


def report_of(store: Store, found: Description | None) -> Report:
    """Return the answer; `found` is None for a store that cannot show its schema."""
    if found is None:
        headline = f"a LangGraph store of the kind {store.kind}, which does not show its schema"
        sections: Iterable[Section] = (Facts("", (("address", store.address),)), _capabilities(store))
    else:
        faults = list(_faults(found))
        headline = f"LangGraph store in {found.backend} {found.version}: {_verdict(found, faults)}"
        sections = _sections(store, found, faults)
    return Report(_data(store, found), tuple(sections), headline)


def _data(store: Store, found: Description | None) -> dict[str, Any]:
    """Return the object of `-o json`; what a store cannot show is null.

    - `kind`, `backend`, `version` (of the server, or of the library that reads the file), `address`, `schema`
    - `tables`: `name`, `columns` (name to type, in order), `rows` (exact, null where counting takes time),
      `estimate` (the database's own), `bytes`
    - `ledgers`: `table`, `recorded`, `known` (to the newest library), `applied` (what the schema shows),
      `agrees`
    - `indexes`: `name`, `table`, `definition`, `valid`
    - `vectors`: `type`, `dims` (an array), `index`, `metric`
    - `bytes`: size on disk; `facts`: what only this backend has
    - `guard`: rule to its state; `history`: `on`, `entries`, `bytes`, null where it was never switched on
    - `capabilities`: name to `present` and `meaning`
    """
    shared = {
        "kind": store.kind,
        "backend": found and found.backend,
        "version": found and found.version,
        "address": store.address,
        "schema": found and found.schema,
    }
    capabilities = {
        str(name): {"present": name in store.capabilities, "meaning": _meaning(store, name)}
        for name in Capability
    }
    return {
        **shared,
        "tables": found and [_table(table) for table in found.tables],
        "ledgers": found and [_ledger(ledger) for ledger in found.ledgers],
        "indexes": found and [_index(index) for index in found.indexes],
        "vectors": found and found.vectors and _vectors(found.vectors),
        "bytes": found and found.octets,
        "facts": found and found.facts,
        "guard": {each.rule: each.state.value for each in store.guards()}
        if isinstance(store, Guarded)
        else None,
        "history": _remembered(store),
        "capabilities": capabilities,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "columns": table.columns,
        "rows": table.rows,
        "estimate": table.estimate,
        "bytes": table.octets,
    }


def _ledger(ledger: Ledger) -> dict[str, Any]:
    return {
        "table": ledger.table,
        "recorded": ledger.recorded,
        "known": ledger.known,
        "applied": ledger.applied,
        "agrees": ledger.agrees,
    }


def _index(index: Index) -> dict[str, Any]:
    return {"name": index.name, "table": index.table, "definition": index.definition, "valid": index.valid}


def _vectors(vectors: VectorSetup) -> dict[str, Any]:
    return {"type": vectors.type, "dims": vectors.dims, "index": vectors.index, "metric": vectors.metric}


def _faults(found: Description) -> Iterator[str]:
    """Say in words what is wrong with the schema."""
    for ledger in found.ledgers:
        known = set(ledger.known)
        absent = sorted(set(ledger.recorded) & known - set(ledger.applied))
        unrecorded = sorted(set(ledger.applied) - set(ledger.recorded))
        if absent:
            yield f"{ledger.table} records {_ranges(absent)}, whose effect the schema lacks"
        if unrecorded:
            which = _ranges(unrecorded)
            yield f"{ledger.table} lacks {which}, which the schema has: LangGraph's setup would run it again"
    for index in found.indexes:
        if not index.valid:
            yield f"the index {index.name} is invalid: searches do without it"
    if found.vectors and len(found.vectors.dims) > 1:
        widths = " and ".join(map(str, found.vectors.dims))
        yield f"vectors of {widths} dims lie side by side: a semantic search that reaches both fails"


def _verdict(found: Description, faults: list[str]) -> str:
    if faults:
        return "1 thing is wrong" if len(faults) == 1 else f"{len(faults)} things are wrong"
    if any(set(ledger.known) - set(ledger.applied) for ledger in found.ledgers[:1]):
        return "in order, in a schema older than today's"
    return "schema and migrations agree"


def _sections(store: Store, found: Description, faults: list[str]) -> Iterator[Section]:
    if faults:
        yield Facts("Wrong", tuple(("!", fault) for fault in faults))
    pairs = [("address", store.address)]
    if found.schema:
        pairs.append(("schema", found.schema))
    if found.octets is not None:
        pairs.append(("size", octets(found.octets)))
    if found.vectors:
        pairs.append(("vectors", _vector_line(found.vectors)))
    pairs += (
        (name.removesuffix("_bytes").replace("_", " "), _fact(name, value))
        for name, value in found.facts.items()
        if value not in (None, False, 0, [], ())
    )
    yield Facts("", tuple(pairs))
    tables = [(_heading(table), ", ".join(table.columns)) for table in found.tables]
    ledgers = [(ledger.table, _ledger_line(ledger)) for ledger in found.ledgers]
    yield Facts("Tables", (*tables, *ledgers))
    yield Facts("Indexes", tuple((index.name, _index_line(index)) for index in found.indexes))
    yield from _keepers(store)
    yield _capabilities(store)


def _keepers(store: Store) -> Iterator[Section]:
    """Yield what memctl has put into the database, if anything."""
    lines: list[tuple[str, str]] = []
    if isinstance(store, Guarded):
        lines += [
            (each.rule, f"guard, {each.state.value}")
            for each in store.guards()
            if each.state in (State.INSTALLED, State.OUTDATED)
        ]
    if remembered := _remembered(store):
        state = "on" if remembered["on"] else "off"
        lines.append(
            ("history", f"{state}, {remembered['entries']:,} entries, {octets(remembered['bytes'])}")
        )
    if lines:
        yield Facts("Kept by memctl", tuple(lines))


def _remembered(store: Store) -> dict[str, Any] | None:
    status = store.history() if isinstance(store, Remembering) else None
    if status is None:
        return None
    return {"on": status.is_on, "entries": status.entries, "bytes": status.octets}


def _heading(table: Table) -> str:
    counts = (
        f"{table.rows:,} rows" if table.rows is not None else "",
        f"about {table.estimate:,} rows" if table.rows is None and table.estimate is not None else "",
        octets(table.octets) if table.octets is not None else "",
    )
    known = ", ".join(filter(None, counts))
    return f"{table.name} ({known})" if known else table.name


def _vector_line(vectors: VectorSetup) -> str:
    dims = f"{_listed(vectors.dims)} dims" if vectors.dims else "none yet"
    index = f"{vectors.index}, {vectors.metric or 'unknown metric'}" if vectors.index else "no index"
    return f"{vectors.type}, {dims}, {index}"


def _ledger_line(ledger: Ledger) -> str:
    recorded = _ranges(ledger.recorded) if ledger.recorded else "nothing"
    if not ledger.agrees:
        applied = _ranges(ledger.applied) if ledger.applied else "none of them"
        return f"migrations {recorded}, but the schema has {applied}"
    unknown = sorted(set(ledger.recorded) - set(ledger.known))
    newer = f"; {_ranges(unknown)} newer than memctl knows" if unknown else ""
    return f"migrations {recorded}, and the schema has them{newer}"


def _index_line(index: Index) -> str:
    _, _, columns = index.definition.partition("(")
    what = " ".join(f"({columns}".split()) if columns else index.definition
    return what if index.valid else f"INVALID {what}"


def _capabilities(store: Store) -> Facts:
    lines = (
        (("+ " if name in store.capabilities else "- ") + name, _meaning(store, name)) for name in Capability
    )
    return Facts("Capabilities", tuple(lines))


def _meaning(store: Store, name: Capability) -> str:
    present, absent = _MEANINGS[name]
    if name in store.capabilities:
        return present
    return _UNSEEN.get(name, absent) if isinstance(store, Narrow) else absent


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_bytes"):
        return octets(value)
    if isinstance(value, list | tuple):
        return _listed(value)
    return str(value)


def _listed(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))


def _ranges(numbers: Iterable[int]) -> str:
    """Spell sorted numbers shortly: `0-4`, `0, 2-3`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return _listed("-".join(map(str, span)) for span in spans)
