"""Groups of options that several commands take together; a command names the groups, `options.shared` each option.

As in `options`, annotations are evaluated here, once.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from memctl.cli.context import Context
from memctl.cli.options import choice, shared

_GROUPS = "option_groups"
Function = TypeVar("Function", bound=Callable[..., None])


def taking(*groups: Callable[..., None]) -> Callable[[Function], Function]:
    """Give a command the options of other functions; what is given of them stands in `Context.options`."""

    def mark(function: Function) -> Function:
        setattr(function, _GROUPS, groups)
        return function

    return mark


def groups_of(function: Callable[..., None]) -> tuple[Callable[..., None], ...]:
    """Return the groups of options that a command takes beside its own."""
    found: tuple[Callable[..., None], ...] = getattr(function, _GROUPS, ())
    return found


def given(context: Context, group: Callable[..., None]) -> dict[str, Any]:
    """Return what was given of a group's options, by the names of its parameters."""
    names = group.__code__.co_varnames[: group.__code__.co_argcount]
    return {name: context.options[name] for name in names if name in context.options}


def conditions(
    regex: Annotated[bool, shared("--regex", help="TEXT is a regular expression.")] = False,
    filters: Annotated[
        list[str] | None,
        shared("--filter", metavar="COND", help="'PATH OP VALUE' or LangGraph's JSON; all must hold."),
    ] = None,
    since: Annotated[
        str | None, shared("--since", metavar="TIME", help="A date, an instant, or an age: 45d.")
    ] = None,
    until: Annotated[
        str | None, shared("--until", metavar="TIME", help="Up to and including this time.")
    ] = None,
    by: Annotated[
        str | None,
        shared(
            "--by",
            metavar="COLUMN",
            help="What --since and --until look at: updated_at or created_at.",
            completion=choice("updated_at", "created_at"),
        ),
    ] = None,
    expired: Annotated[bool, shared("--expired", help="Only what has expired.")] = False,
    live: Annotated[bool, shared("--live", help="Only what has not expired.")] = False,
) -> None:
    """The selecting options, on every command that selects; see `selecting.read_selection`."""


_ORDERS = ("newest", "oldest", "name", "bytes")


def picking(
    order: Annotated[
        str | None,
        shared(
            "--order",
            metavar="ORDER",
            help=f"{', '.join(_ORDERS)}: which come first. [default: newest]",
            completion=choice(*_ORDERS),
        ),
    ] = None,
    limit: Annotated[
        int | None, shared("--limit", metavar="N", min=0, help="At most so many, the first.")
    ] = None,
    offset: Annotated[
        int | None, shared("--offset", metavar="N", min=0, help="Leave out the first N.")
    ] = None,
) -> None:
    """Which of the selected, by their place in an order; see `selecting.first_of`."""


def choosing(
    recursive: Annotated[bool, shared("--recursive", help="NS's descendants too.")] = False,
    text: Annotated[
        str | None, shared("--text", metavar="TEXT", help="Only items that say this, in any case.")
    ] = None,
    names: Annotated[
        str | None,
        shared(
            "--from", metavar="FILE", help="The items named in a file, or - for standard input: `-o name`."
        ),
    ] = None,
    everything: Annotated[
        bool, shared("--all", help="Mean everything, where neither NS nor a condition narrows it.")
    ] = False,
) -> None:
    """What `conditions` lacks to say which items are changed; see `choosing.Request`."""


def examining(
    against: Annotated[
        str | None,
        shared(
            "--against",
            metavar="STORE",
            help="An older archive, or another store, that knows creation times.",
        ),
    ] = None,
    assume_overwritten: Annotated[
        bool,
        shared(
            "--assume-overwritten", help="Take an item for as old as its oldest vector: created-at-drift."
        ),
    ] = False,
    dims: Annotated[
        str | None, shared("--dims", metavar="N", help="How many dims vectors should have: vector-shape.")
    ] = None,
    threshold: Annotated[
        str | None,
        shared(
            "--threshold", metavar="X", help="The cosine from which items are duplicates. [default: 0.95]"
        ),
    ] = None,
    subject_field: Annotated[
        str | None,
        shared("--subject-field", metavar="FIELD", help="Items that agree in it are duplicates: duplicates."),
    ] = None,
    source_field: Annotated[
        str | None,
        shared(
            "--source-field", metavar="FIELD", help="Where items name the thread they are from: provenance."
        ),
    ] = None,
) -> None:
    """What single checks need to know."""


def sharing(
    jobs: Annotated[
        int | None,
        shared(
            "--jobs",
            metavar="N",
            help="Let N processes read from a server, as of one moment, or N connections write; 1 by default.",
        ),
    ] = None,
) -> None:
    """The option of what reads a whole store on a server; see `Context.open_at`."""


def bringing(
    on_conflict: Annotated[
        str | None,
        shared(
            "--on-conflict",
            metavar="WHAT",
            help="fail, skip, overwrite or newer, where an item is there and differs. [default: fail]",
            completion=choice("fail", "skip", "overwrite", "newer"),
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        shared("--map", metavar="OLD=NEW", help="Rename: 'prefs.{user}={user}.prefs'. The first that fits."),
    ] = None,
    into: Annotated[
        str | None, shared("--into", metavar="NS", help="Put this in front of every namespace.")
    ] = None,
    on_error: Annotated[
        str | None,
        shared(
            "--on-error",
            metavar="WHAT",
            help="stop, or skip what cannot be brought in and bring in the rest. [default: stop]",
            completion=choice("stop", "skip"),
        ),
    ] = None,
    rejects: Annotated[
        str | None, shared("--rejects", metavar="FILE", help="Write what cannot be brought in to this file.")
    ] = None,
    round_ttl: Annotated[
        str | None,
        shared(
            "--round-ttl",
            metavar="up",
            help="up: a fraction of a minute counts whole.",
            completion=choice("up"),
        ),
    ] = None,
    no_vectors: Annotated[bool, shared("--no-vectors", help="Without the embeddings.")] = False,
    drop_vectors: Annotated[
        bool, shared("--drop-vectors", help="Leave out the vectors that the target cannot hold.")
    ] = False,
    init: Annotated[
        bool, shared("--init", help="Make LangGraph's tables in the target where it has none.")
    ] = False,
) -> None:
    """The options of what brings items into a store; see `bringing.Options`."""
