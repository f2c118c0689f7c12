"""`memctl export`: an archive of what the store holds, a JSON array of it, or a report for people."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.groups import conditions, given, picking, sharing, taking
from memctl.cli.options import Namespace, NoSnapshot, choice
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from memctl.archive import Header
    from memctl.cli.progress import Advance
    from memctl.model import Detail, Item
    from memctl.selection import Selection
    from memctl.store import Count, Store

_FORMATS = ("archive", "json")


@taking(conditions, picking, sharing)
def export(
    ctx: typer.Context,
    ns: Namespace = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Write to this file, compressed if it is called .gz or .zst."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only items that say this.")
    ] = None,
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Without the embeddings.")] = False,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="archive, or json: one array of items.",
            autocompletion=choice(*_FORMATS),
        ),
    ] = "archive",
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="The store as it was then, by its history; see `memctl history`."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    no_snapshot: NoSnapshot = False,
) -> None:
    """Copy items out of the store, exactly and of one moment: values, times, expiry, vectors.

    An archive goes back with `memctl import` and is checked with `memctl verify`. With `-o markdown` it is a
    report of what is held, to be read. FILE appears under its name only when it is complete.

    Examples:
      memctl export -f backup.jsonl.gz
      memctl export users.ana -o markdown -f ana.md
      memctl export --filter 'kind=Memory' --since 30d
    """
    from memctl.cli.progress import progress
    from memctl.cli.selecting import first_of, selection_of
    from memctl.instants import parse_time
    from memctl.past import Then
    from memctl.selection import Selection

    context: Context = ctx.obj
    if form not in _FORMATS:
        raise UsageError(f"--format {form}: archive or json is expected")
    is_report = context.options.get("output") == "markdown"
    if is_report and form == "json":
        raise UsageError("--format json and -o markdown are two answers; ask for one")
    context.check_format()
    _check_output(context, file, overwrite)
    started = monotonic()
    with ExitStack() as stack:
        store = context.open(may_lag=at is None)
        if at is not None:
            store = Then(store, parse_time(at, store.now()))
        selection = selection_of(store, within=ns, text=text, **given(context, conditions))
        source = store if no_snapshot else stack.enter_context(store.snapshot())
        selection = first_of(
            selection, partial(Selection.select, store=source, values=False), **given(context, picking)
        )
        job = _Job(context, source, selection, with_vectors=not no_vectors)
        count = job.count()
        stream = stack.enter_context(_output(context, file, overwrite))
        with progress(context, "exporting", count.items if count else None) as advance:
            if is_report:
                done = job.report(stream, ns, advance)
            elif form == "json":
                done = job.array(stream, advance)
            else:
                done = job.archive(stream, count, advance)
        stack.close()
        _tell(context, job, done, count, file, monotonic() - started)
        if isinstance(source, Then) and source.restored and job.with_vectors:
            context.note(f"{source.restored:,} of them have changed since, and come without vectors")


@dataclass(frozen=True, slots=True)
class _Done:
    items: int
    vectors: int
    octets: int


class _Job:
    """What is to be exported, in each of its forms."""

    def __init__(self, context: Context, source: Store, selection: Selection, *, with_vectors: bool) -> None:
        from memctl.store import Capability

        self.context, self.source, self.selection = context, source, selection
        self.leaves_out_vectors = not with_vectors and Capability.VECTORS in source.capabilities
        self.with_vectors = with_vectors and Capability.VECTORS in source.capabilities

    def count(self) -> Count | None:
        """Count in the same snapshot that is read afterwards; None where there is none."""
        from memctl.model import Detail
        from memctl.store import Capability, Count, Counted

        if Capability.SNAPSHOT not in self.source.capabilities:
            return None
        orphans = 0
        selection = self.selection
        if isinstance(self.source, Counted):
            count = self.source.count(selection.scope)
            if selection.is_unconditional and (selection.pattern is None or selection.pattern.is_literal):
                return count
            orphans = count.orphans
        items = vectors = 0
        for item in selection.select(self.source, values=False, vectors=Detail.SHAPE):
            items += 1
            vectors += len(item.vectors)
        return Count(items, vectors, orphans)

    def archive(self, stream: BinaryIO, count: Count | None, advance: Advance) -> _Done:
        """Write an archive."""
        from memctl.archive import write_pieces
        from memctl.render.units import counted

        pieces = self.selection.pieces(self.source, vectors=self._detail)
        totals = write_pieces(stream, self._header(count), pieces, progress=advance)
        if totals.raw:
            items = counted(totals.raw, "item")
            self.context.warn(
                f"{items} could not be decoded in full, and went out as they are stored", outcome=3
            )
        return _Done(totals.items, totals.vectors, totals.octets)

    def array(self, stream: BinaryIO, advance: Advance) -> _Done:
        """Write one JSON array with a row for each item."""
        from memctl.render import Target
        from memctl.render.json import Json

        return self._render(Json(Target(stream)), advance)

    def report(self, stream: BinaryIO, ns: str | None, advance: Advance) -> _Done:
        """Write a document for people: what is held, and since when."""
        from memctl.render import Facts, Report, Target
        from memctl.render.markdown import Markdown

        document = Markdown(Target(stream))
        about = ns if ns is not None else "everything"
        facts = [("store", self.source.address), ("as of", self.source.now())]
        if not self.selection.is_unconditional:
            facts.append(("selected", "not everything: by conditions on text, values or times"))
        document.report(Report({}, (Facts("", facts),), headline=f"What is remembered under {about}"))
        stream.write(b"\n")
        return self._render(document, advance)

    @property
    def _detail(self) -> Detail:
        from memctl.model import Detail

        return Detail.FULL if self.with_vectors else Detail.NONE

    def _items(self) -> Iterator[Item]:
        return self.selection.select(self.source, vectors=self._detail)

    def _render(self, document: object, advance: Advance) -> _Done:
        from memctl.cli.rows import ITEM_COLUMNS, VECTORS_COLUMN, item_row
        from memctl.values import inspect

        done = [0, 0, 0]

        def rows() -> Iterator[dict[str, object]]:
            for item in self._items():
                done[0] += 1
                done[1] += len(item.vectors)
                done[2] += item.size
                advance(1)
                yield item_row(item, inspect(item), "base64" if self.with_vectors else None)

        columns = (*ITEM_COLUMNS, VECTORS_COLUMN) if self.with_vectors else ITEM_COLUMNS
        document.items(columns, self.context.counting_problems(rows()))  # type: ignore[attr-defined]
        return _Done(*done)

    def _header(self, count: Count | None) -> Header:
        from memctl.archive import Header
        from memctl.store import Capability, Described

        described = self.source.describe().vectors if isinstance(self.source, Described) else None
        dims = described.dims if described and self.with_vectors else ()
        missing = [
            capability.value
            for capability in (Capability.VECTORS, Capability.VECTOR_TIMES, Capability.EXPIRY)
            if capability not in self.source.capabilities
        ]
        if self.leaves_out_vectors:
            missing.insert(0, Capability.VECTORS.value)
        scope: tuple[str, ...] = ()
        if self.selection.pattern:
            from memctl.namespaces import show

            scope = tuple("*" if label is None else show(label) for label in self.selection.pattern.labels)
        return Header(
            source=self.source.kind,
            created=self.source.now(),
            dims=dims[0] if len(dims) == 1 else None,
            vector_type=None if described is None or not self.with_vectors else _column_type(described.type),
            scope=scope,
            items=count.items if count else None,
            vectors=(count.vectors if self.with_vectors else 0) if count else None,
            missing=tuple(missing),
            filtered=not self.selection.is_unconditional,
        )


def _column_type(declared: str) -> str:
    """Name the type that holds such embeddings without loss: SQLite's BLOBs are float32, as `vector` is."""
    return "halfvec" if "halfvec" in declared else "vector"


def _check_output(context: Context, file: str | None, overwrite: bool) -> None:
    """Raise, before a store is opened, where FILE could not be written in the end."""
    from memctl.archive.files import check, refuse_database

    if file is not None and file != "-":
        path = context.file(file)
        check(path, overwrite=overwrite)
        refuse_database(path)


@contextmanager
def _output(context: Context, file: str | None, overwrite: bool) -> Iterator[BinaryIO]:
    """Give a stream; what a rehearsal writes goes nowhere, so that it finds all that the real run would."""
    from memctl.archive import new_file

    if context.is_dry_run:
        with Path(os.devnull).open("wb") as nowhere:
            yield nowhere
    elif file is None or file == "-":
        yield context.environment.stdout
        context.environment.stdout.flush()
    else:
        with new_file(context.file(file), overwrite=overwrite) as stream:
            yield stream


def _tell(
    context: Context, job: _Job, done: _Done, count: Count | None, file: str | None, seconds: float
) -> None:
    """Say in one line what went out, how long it took, and what did not go out."""
    from memctl.render import Report
    from memctl.render.units import counted, octets

    verb = "would be exported" if context.is_dry_run else "exported"
    size = f" ({octets(done.octets)})" if done.octets else ""
    parts = [
        f"{counted(done.items, 'item')} and {counted(done.vectors, 'vector')}{size} {verb} in {seconds:.1f} s"
    ]
    if file not in (None, "-"):
        parts[0] += f" to {file}"
    if job.source.lock_seconds:
        parts.append(f"writers waited at most {job.source.lock_seconds * 1000:.0f} ms")
    if job.leaves_out_vectors and count and count.vectors:
        parts.append(f"{counted(count.vectors, 'vector')} left out")
    if count and count.orphans:
        parts.append(f"{counted(count.orphans, 'orphaned vector')} left out: the item is gone")
    context.note("; ".join(parts))
    context.say_if_moved(job.source)
    if context.speaks_json and (context.is_dry_run or file not in (None, "-")):
        context.emit_report(
            Report(
                {
                    "items": done.items,
                    "vectors": done.vectors,
                    "bytes": done.octets,
                    "orphans": count.orphans if count else None,
                    "skipped": 0,
                    "rejected": 0,
                    "file": file,
                    "dry_run": context.is_dry_run,
                    "lock_seconds": round(job.source.lock_seconds, 3),
                    "seconds": round(seconds, 3),
                }
            )
        )
