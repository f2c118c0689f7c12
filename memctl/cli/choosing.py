"""Which items rm and expire are about: NS and KEYs, a file of names, or the selecting options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memctl.errors import NothingThere, UsageError

if TYPE_CHECKING:
    from typing import BinaryIO

    from memctl.choosing import Choice, Named
    from memctl.cli.context import Context
    from memctl.coverage import Coverage
    from memctl.model import Position
    from memctl.selection import Selection
    from memctl.store import Store


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, as far as it can be judged without a store."""

    context: Context
    ns: str | None
    keys: list[str]
    recursive: bool
    names: str | None
    conditions: dict[str, Any]
    """The selecting options that were given, TEXT among them."""
    picked: dict[str, Any]
    """Which of those come first, and how many of them are meant."""

    def choice(self, store: Store) -> Choice:
        """Return which items of the store are meant.

        Raises UsageError for a condition that cannot be read, Unsupported where the store has no expiry.
        """
        from memctl import namespaces
        from memctl.choosing import Named, Selected
        from memctl.cli.selecting import first_of, selection_of
        from memctl.model import Position

        if self.names is not None:
            return Named(_names(self.context, self.names))
        if self.keys:
            prefix = namespaces.parse_exact(self.ns or "")
            places = [Position(prefix, key) for key in self.keys]
            return Named(lambda: places)
        selection = selection_of(store, **self.conditions)
        if self.ns is not None:
            pattern = replace(namespaces.parse(self.ns), descend=self.recursive)
            selection = replace(selection, pattern=pattern)
            if pattern.is_literal:
                self._expect(store, selection)
        return Selected(first_of(selection, lambda all_: all_.select(store, values=False), **self.picked))

    def _expect(self, store: Store, selection: Selection) -> None:
        """Raise NothingThere where a literal namespace holds nothing, whatever the conditions."""
        from memctl.coverage import below
        from memctl.nearest import expect, missing_namespace

        prefix = selection.scope.prefix or ""

        def nothing() -> NothingThere:
            namespaces, items = below(store, prefix)
            if not items:
                return missing_namespace(store, prefix)
            from memctl.render.units import counted

            return NothingThere(
                f"{self.ns!r} itself holds nothing",
                hint=f"{counted(items, 'item')} in {counted(namespaces, 'namespace')} below it: --recursive",
            )

        expect(store.scan(selection.scope, values=False), nothing)


def read_request(
    context: Context,
    ns: str | None,
    keys: list[str] | None,
    options: dict[str, Any],
    conditions: dict[str, Any],
    picked: dict[str, Any],
) -> Request:
    """Read arguments and options. Raises UsageError, also for everything without `--all`.

    `options` are those of `options.choosing`, `conditions` of `options.conditions`, `picked` of `options.picking`.
    """
    names, recursive, text = options.get("names"), bool(options.get("recursive")), options.get("text")
    given = {**conditions, **({"text": text} if text is not None else {})}
    if names is not None and (ns is not None or recursive or given or picked):
        raise UsageError("--from names the items: neither NS nor any condition goes with it")
    if keys and (recursive or given or picked):
        raise UsageError("NS and KEY name the items: neither --recursive nor any condition goes with them")
    request = Request(context, ns, list(dict.fromkeys(keys or ())), recursive, names, given, picked)
    if names is None and not keys and not given and _is_anything(ns) and not options.get("everything"):
        raise UsageError(
            "that means everything in the store",
            hint="name a namespace or a condition; --all says that everything is meant",
            code="needs-all",
        )
    return request


def _is_anything(ns: str | None) -> bool:
    """Tell whether a namespace has no label of its own; the empty one, `""`, is a label like another."""
    from memctl import namespaces

    return ns is None or all(label is None for label in namespaces.parse(ns).labels)


def _names(context: Context, source: str) -> Callable[[], Iterator[Position]]:
    """Return what yields the names in a file, each time anew."""
    from memctl.cli.context import names_in
    from memctl.cli.sides import open_input
    from memctl.model import Position

    stream: BinaryIO = open_input(context, source)

    def places() -> Iterator[Position]:
        stream.seek(0)
        for prefix, key in names_in(stream, source):
            yield Position(prefix, key)

    return places


def tell_missing(context: Context, store: Store, named: Named) -> None:
    """Say which names name nothing, which makes the exit code 5."""
    from memctl.nearest import missing_keys

    if not named.missing:
        return
    first = named.samples[0].prefix
    keys = [place.key for place in named.samples if place.prefix == first][:5]
    error = missing_keys(store, first, keys)
    more = named.missing - len(keys)
    context.warn(error.message + (f", and {more:,} more are missing" if more > 0 else ""), outcome=5)
    if error.hint:
        context.note(f"  {error.hint}")


def tell_coverage(context: Context, store: Store, choice: Choice, coverage: Coverage) -> None:
    """Say what is covered and what is not."""
    from memctl.choosing import Selected
    from memctl.coverage import alike, below
    from memctl.model import shown
    from memctl.namespaces import show
    from memctl.render.units import counted, octets

    size = f"{counted(coverage.items, 'item')} and {counted(coverage.vectors, 'vector')}"
    where = ""
    if coverage.namespaces == 1:
        where = f" in {show(shown(coverage.named[0][0]))}"
    elif coverage.namespaces:
        names = [f"{show(shown(prefix))} ({items:,})" for prefix, items in coverage.named]
        more = coverage.namespaces - len(names)
        where = f" in {coverage.namespaces:,} namespaces: {', '.join(names)}" + (
            f" and {more:,} more" if more else ""
        )
    context.note(f"covers {size} ({octets(coverage.octets)}){where}")
    pattern = choice.selection.pattern if isinstance(choice, Selected) else None
    if pattern is None or not pattern.is_literal:
        return
    prefix = pattern.scope.prefix or ""
    if not pattern.descend:
        namespaces, items = below(store, prefix)
        if items:
            context.note(
                f"leaves {counted(items, 'item')} in {counted(namespaces, 'namespace')} below it (--recursive)"
            )
    if names := [show(shown(name)) for name in alike(store, prefix)]:
        context.note(f"leaves {', '.join(names)}: another namespace that begins alike")
