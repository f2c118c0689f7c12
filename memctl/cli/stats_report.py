"""Statistics as output: the object that scripts read, and the page that people look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memctl.chronology import Histogram
from memctl.history import Remembering
from memctl.instants import shift
from memctl.model import Instant, shown
from memctl.namespaces import show
from memctl.render import Bars, Column, Facts, Grid, Kind, Report, Section
from memctl.render.units import moment, octets
from memctl.statistics import HORIZONS, OCTETS_PER_TOKEN, Prompt, Range, Statistics
from memctl.store import Store

_LARGEST = (Column("namespace", Kind.NAMESPACE), Column("key", Kind.KEY), Column("bytes", Kind.OCTETS))


def report_of(found: Statistics, store: Store, ns: str | None) -> Report:
    """Return the answer about a store, or about the namespace given as `ns` in it."""
    where = "" if ns is None else (ns or '""') + ": "
    headline = (
        f"{where}{_counted(found.items, 'item')} "
        f"in {_counted(found.namespaces, 'namespace')}, {octets(found.octets)} of values"
    )
    status = store.history() if isinstance(store, Remembering) else None
    if status is not None:
        headline += f"; {_counted(status.entries, 'former value')} in its history, {octets(status.octets)}"
    data = _data(found, store.address, ns)
    data["history"] = status and {"on": status.is_on, "entries": status.entries, "bytes": status.octets}
    return Report(data, tuple(_sections(found)) if found.items else (), headline)


def _data(found: Statistics, address: str, ns: str | None) -> dict[str, Any]:
    """Return the object of `-o json`.

    - `store`; `scope`: NS as it was given, or null; `now`: the instant that decided what is expired
    - `items`, `live`, `expired`, `never_expiring` (some of the live ones)
    - `namespaces`: how many directly hold items; `bytes`: the octets of the values' JSON text
    - `vectors`, `items_with_vectors`, `items_without_vectors`: null in a store that has no vectors
    - `dims`: dims to the number of vectors that have them
    - `created_at`, `updated_at`: `oldest` and `newest`, null where no time could be read
    - `largest`: up to five of `namespace`, `key`, `bytes`
    - `prompt`: an estimate over the live items of each namespace cut to `depth` labels: `depth`,
      `namespaces`, `bytes_per_token`, `tokens` and `bytes` (each `median`, `p95`, `largest`, by nearest
      rank), `largest_namespace`
    - `creation`: `step`, `bars` (`from` inclusive, `to` exclusive, `items`), and the few items created so
      much `earlier` or `later` that they would have squeezed the bars
    - `expiry`: `within`, `until` (inclusive), `items`
    - `history`: `on`, `entries`, `bytes` of the whole store, null where it was never switched on
    - `problems`: `items` that could not be decoded in full, and in how many of them which of `parts`
    """
    creation = found.creation
    has_vectors = found.vectors is not None
    return {
        "store": address,
        "scope": ns,
        "now": found.now,
        "items": found.items,
        "live": found.live,
        "expired": found.expired,
        "never_expiring": found.never_expiring,
        "namespaces": found.namespaces,
        "bytes": found.octets,
        "vectors": found.vectors,
        "items_with_vectors": found.items_with_vectors if has_vectors else None,
        "items_without_vectors": found.items - found.items_with_vectors if has_vectors else None,
        "dims": {str(dims): count for dims, count in found.dims.items()},
        "created_at": {"oldest": found.created.oldest, "newest": found.created.newest},
        "updated_at": {"oldest": found.updated.oldest, "newest": found.updated.newest},
        "largest": _largest(found),
        "prompt": _prompt(found.prompt),
        "creation": {
            "step": creation.step.name if creation.step else None,
            "bars": [{"from": bar.start, "to": bar.end, "items": bar.count} for bar in creation.bars],
            "earlier": creation.earlier,
            "later": creation.later,
        },
        "expiry": [
            {"within": name, "until": until, "items": count} for name, until, count in _expiries(found)
        ],
        "problems": {"items": found.damaged, "parts": found.damaged_parts},
    }


def _prompt(prompt: Prompt) -> dict[str, Any]:
    sizes = {"median": prompt.median, "p95": prompt.p95, "largest": prompt.largest}
    largest = prompt.largest_prefix
    return {
        "depth": prompt.depth,
        "namespaces": prompt.namespaces,
        "bytes_per_token": OCTETS_PER_TOKEN,
        "tokens": {name: _tokens(size) for name, size in sizes.items()},
        "bytes": sizes,
        "largest_namespace": None if largest is None else shown(largest).split("."),
    }


def _largest(found: Statistics) -> list[dict[str, Any]]:
    return [
        {"namespace": shown(item.prefix).split("."), "key": shown(item.key), "bytes": item.size}
        for item in found.largest
    ]


def _sections(found: Statistics) -> Iterator[Section]:
    yield Facts("", tuple(_facts(found)))
    prompt = found.prompt
    if prompt.largest_prefix is not None:
        name = show(shown(prompt.largest_prefix)) or '""'
        tenants = _counted(prompt.namespaces, "namespace")
        yield Bars(
            "Tokens in a prompt, estimated",
            (
                ("median", _tokens(prompt.median)),
                ("95th percentile", _tokens(prompt.p95)),
                (f"largest: {name}", _tokens(prompt.largest)),
            ),
            note=f"live items of each of {tenants} at --depth {prompt.depth}, "
            f"{OCTETS_PER_TOKEN} bytes a token",
        )
    if found.creation.step:
        note = f"by the {found.creation.step.name}, UTC"
        yield Bars("Created", tuple(_creation_bars(found.creation)), note=note)
    if any(found.expiries):
        bars = tuple((name, count) for name, _, count in _expiries(found) if name != "never")
        never = f"{found.never_expiring:,} more never expire" if found.never_expiring else ""
        yield Bars("Expiring", bars, note=never)
    yield Grid("Largest", _LARGEST, _largest(found))


def _facts(found: Statistics) -> Iterator[tuple[str, str]]:
    never = f" ({found.never_expiring:,} never expire)" if found.never_expiring else ""
    yield "items", f"{found.live:,} live{never}, {found.expired:,} expired"
    if found.vectors is not None:
        common_first = sorted(found.dims.items(), key=lambda entry: -entry[1])
        widths = ", ".join(f"{count:,} of {dims} dims" for dims, count in common_first) or "none"
        without = found.items - found.items_with_vectors
        yield "vectors", f"{widths}; {_counted(without, 'item')} without" if without else widths
    yield "created", _between(found.created)
    yield "updated", _between(found.updated)
    if found.damaged:
        parts = ", ".join(f"{part} {count:,}" for part, count in found.damaged_parts.items())
        yield "problems", f"{_counted(found.damaged, 'item')}: {parts}"


def _creation_bars(histogram: Histogram) -> Iterator[tuple[str, int]]:
    if histogram.earlier:
        yield "earlier", histogram.earlier
    for bar in histogram.bars:
        yield histogram.label(bar), bar.count
    if histogram.later:
        yield "later", histogram.later


def _expiries(found: Statistics) -> Iterator[tuple[str, Instant | None, int]]:
    for (name, length), count in zip(HORIZONS, found.expiries, strict=False):
        yield name, shift(found.now, length), count
    yield "later", None, found.expiries[-1]
    yield "never", None, found.never_expiring


def _between(times: Range) -> str:
    if times.oldest is None or times.newest is None:
        return "no time that could be read"
    return f"{moment(times.oldest)} to {moment(times.newest)} UTC"


def _tokens(size: int) -> int:
    return -(-size // OCTETS_PER_TOKEN)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
