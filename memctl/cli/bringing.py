"""What `import` and `migrate` have in common: survey, ask, write, tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast

from memctl.errors import MemctlError, NoStore, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from memctl.addresses import Address
    from memctl.cli.context import Context
    from memctl.cli.rejects import Originals
    from memctl.store import Setup, Target
    from memctl.stores.planned import Planned
    from memctl.transfer import Entry, Moved, Rules, Survey


ANY_DIMS = 0
"""Vectors of whatever width, which SQLite keeps side by side."""


class Make(Protocol):
    """Opens the target with its tables made, or, with `path`, a file that is to become it."""

    def __call__(self, path: Path | None = None) -> Target: ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options that both commands take, as given."""

    on_conflict: str = "fail"
    mapping: list[str] | None = None
    into: str | None = None
    on_error: str = "stop"
    rejects: str | None = None
    round_ttl: str | None = None
    no_vectors: bool = False
    drop_vectors: bool = False
    init: bool = False

    def rules(self, *, is_ordered: bool) -> Rules:
        """Read them. Raises UsageError."""
        from memctl.mapping import parse
        from memctl.transfer import Rules

        conflict: Any = self.on_conflict
        if conflict not in ("fail", "skip", "overwrite", "newer"):
            raise UsageError(f"--on-conflict {conflict}: fail, skip, overwrite or newer is expected")
        if self.on_error not in ("stop", "skip"):
            raise UsageError(f"--on-error {self.on_error}: stop or skip is expected")
        if self.round_ttl not in (None, "up"):
            raise UsageError(f"--round-ttl {self.round_ttl}: the only way to round is up")
        return Rules(
            on_conflict=conflict,
            mapping=parse(self.mapping or [], self.into),
            is_ordered=is_ordered,
            without_vectors=self.no_vectors,
            round_ttl_up=self.round_ttl == "up",
            left_out=frozenset({"vectors"}) if self.drop_vectors else frozenset(),
        )


def setup_of(
    init: bool, dims: int | None, vector_type: str | None, index: str | None, metric: str | None
) -> Setup | None:
    """Read the options that say how tables are made. Raises UsageError."""
    from memctl.store import Setup

    if not init:
        if dims or vector_type or index or metric:
            raise UsageError("--dims, --vector-type, --index and --metric say how --init makes tables")
        return None
    if dims is None and (index or metric):
        raise UsageError("--index and --metric need vectors: --dims N")
    known = {
        "--vector-type": (vector_type, ("vector", "halfvec")),
        "--index": (index, ("hnsw", "ivfflat", "flat")),
        "--metric": (metric, ("cosine", "l2", "inner_product")),
    }
    for option, (given, words) in known.items():
        if given is not None and given not in words:
            raise UsageError(f"{option} {given}: one of {', '.join(words)} is expected")
    return Setup(dims, vector_type or "vector", index or "hnsw", metric or "cosine")


def open_target(context: Context, address: Address, setup: Setup | None) -> Target:
    """Open where items go. What `setup` is yet to make counts as empty: it is made when all is found good."""
    if setup is not None and setup.dims == ANY_DIMS and address.scheme != "sqlite":
        raise UsageError(
            "the vectors are not all of one width, and a column is",
            hint="--dims N says which; --drop-vectors leaves the others out",
        )
    try:
        target = context.open_to_write(address)
    except NoStore as error:
        if setup is None or error.code not in ("missing", "empty", "no-tables"):
            raise
        return context.until_the_end(_planned(context, address, setup))
    if setup is None:
        return target
    if context.is_dry_run:
        return _widened(context, target, address, setup)
    target.close()  # there already, but an index that was to follow the rows may still be missing
    return context.open_to_write(address, setup)


def _widened(context: Context, target: Target, address: Address, setup: Setup) -> Target:
    """Take into account the tables of vectors that `setup` would add to a store that has none."""
    from memctl.store import Capability
    from memctl.stores.planned import Widened

    if setup.dims is None or Capability.VECTORS in target.capabilities:
        return target
    planned = context.until_the_end(_planned(context, address, setup))
    return cast("Target", Widened(target, planned))


def _planned(context: Context, address: Address, setup: Setup) -> Planned:
    from memctl.stores.planned import Planned

    return Planned(address, setup, context.environment.clock, timeout=context.timeout)


def bring_in(
    context: Context,
    entries: Callable[[bool], Iterable[Entry]],
    target: Target,
    options: Options,
    *,
    make: Make,
    another: Callable[[], Target],
    is_ordered: bool,
    expected: int | None,
    what: str,
    unit: str = "line",
    originals: Originals | None = None,
) -> None:
    """Survey the source, refuse or ask, write, and report.

    `entries` begins the source anew each time, as `originals` does where it is a file; it is told whether all of it
    was read before, and found good. `make` opens the target with its tables made, where it has none yet, or makes
    a file elsewhere; `another` opens it once more, with the tables as they are by then.
    """
    from memctl.cli.progress import progress
    from memctl.cli.rejects import Rejects
    from memctl.render.units import counted
    from memctl.store import Narrow
    from memctl.stores.planned import Planned
    from memctl.transfer import Moved, fill, refuse_unless_clean, survey, transfer

    rules = replace(options.rules(is_ordered=is_ordered), unit=unit)
    if isinstance(target, Narrow):
        rules = replace(rules, lost=target.lost)
    started = monotonic()
    rejects = Rejects(context, options.rejects, unit, originals)
    is_skipping = options.on_error == "skip"

    def look(target: Target) -> Survey:
        with progress(context, "checking", expected) as advance:
            return survey(entries(False), target, rules, reject=rejects, progress=advance)

    if isinstance(target, Planned) and target.path is not None and not context.is_dry_run:
        with progress(context, what, expected) as advance:
            filled = _filled(
                target.path, make, lambda made: fill(entries(False), made, rules, progress=advance)
            )
        if filled is not None:
            _report(context, *filled, monotonic() - started, what)
            return
    found = look(target)
    refuse_unless_clean(found, skip_rejected=is_skipping)
    if found.changed and options.on_conflict in ("overwrite", "newer"):
        items = counted(found.changed, "item")
        context.confirm(f"{items} that differ will be overwritten in {target.address}.")
    if not context.is_dry_run and isinstance(target, Planned):
        is_sure, target = target.is_sure, make()
        if not is_sure:  # now that there are tables to try things on
            rejects.restart()
            found = look(target)
            refuse_unless_clean(found, skip_rejected=is_skipping, written="nothing but LangGraph's tables")
    moved = Moved(
        found.to_write, found.vectors, found.octets, unchanged=found.unchanged, skipped=found.skipped
    )
    if not context.is_dry_run:
        if found.to_write:
            beside = _others(context, target, another)
            with progress(context, what, expected) as advance:
                moved = transfer(
                    entries(True), target, rules, progress=advance, judged=not found.rejected, beside=beside
                )
        else:
            target.finish()
        rejects.publish()
    elif found.to_write:
        context.rehearse(target, "INSERT", *(("UPDATE", "DELETE") if found.changed else ()))
        context.would_write()
    _report(context, found, moved, monotonic() - started, what)
    if rules.lost & {"created_at", "updated_at"} and moved.items:
        context.note(
            f"{target.address} sets created_at and updated_at itself: those of the source are not kept"
        )


def _filled(
    path: Path, make: Make, work: Callable[[Target], tuple[Survey, Moved] | None]
) -> tuple[Survey, Moved] | None:
    """Fill a new file, read once, that gets its name when it is complete.

    None, and no file, where something is to be told of the source first, or else is in the way: reading it twice
    finds out.
    """
    import secrets

    from memctl.archive import publish

    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with closing(make(part)) as target:
            filled = work(target)
        if filled is not None:
            publish(part, path)
    except MemctlError:
        return None
    finally:
        for left in (part, part.with_name(f"{part.name}-journal")):
            left.unlink(missing_ok=True)
    return filled


def _others(context: Context, target: Target, another: Callable[[], Target]) -> list[Target]:
    """With --jobs, open a server of SQL as often as it is to be written to at the same time."""
    from memctl.store import Splittable

    jobs: int = context.options.get("jobs", 1)
    return [another() for _ in range(jobs - 1)] if isinstance(target, Splittable) else []


def _report(context: Context, found: Survey, moved: Moved, seconds: float, what: str) -> None:
    from memctl.cli.rejects import told
    from memctl.render import Report
    from memctl.render.units import counted

    data = {
        "items": moved.items,
        "vectors": moved.vectors,
        "bytes": moved.octets,
        "skipped": moved.skipped + moved.overtaken,
        "rejected": found.rejected,
        "unchanged": moved.unchanged,
        "overwritten": found.changed,
        "vectors_left_out": found.vectors_left_out,
        "expiries_left_out": found.expiries_left_out,
        "reasons": [
            {"part": part, "reason": reason, "items": count}
            for (part, reason), count in found.reasons.most_common()
        ],
        "dry_run": context.is_dry_run,
        "seconds": round(seconds, 3),
    }
    left = [
        f"{count:,} {words}"
        for count, words in (
            (moved.unchanged, "there already and equal"),
            (moved.skipped, "skipped"),
            (moved.overtaken, "left to somebody else who wrote them meanwhile"),
            (found.rejected, "rejected"),
            (found.vectors_left_out, "vectors left out"),
            (found.expiries_left_out, "with an expiry that does not arrive as it was"),
        )
        if count
    ]
    verb = f"would be {what}" if context.is_dry_run else what
    headline = (
        f"{counted(moved.items, 'item')} and {counted(moved.vectors, 'vector')} {verb} in {seconds:.1f} s"
    )
    context.emit_report(Report(data, (), "; ".join([headline, *left])))
    if not context.is_verbose:  # else each was told
        for rejected in found.samples:
            context.warn(told(rejected, found.unit))
    if found.rejected:
        more = 0 if context.is_verbose else found.rejected - len(found.samples)
        words = f"… and {more:,} more: --verbose tells all, --rejects FILE keeps them"
        context.warn(words if more else f"{found.rejected:,} rejected", outcome=3)
    if found.vectors_left_out or found.expiries_left_out or moved.overtaken:
        context.outcomes.add(3)
