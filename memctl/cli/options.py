"""Options that several commands share, each written once.

Annotations are evaluated here, once, and not left as text: Typer would evaluate them four times a command.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer

from memctl.cli.context import Context
from memctl.render import FORMATS

PANEL = "Global options"
_GROUPS = "option_groups"
Function = TypeVar("Function", bound=Callable[..., None])


def _keep(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Record an option that was given, a global one before the command or after it; the latter wins."""
    source = ctx.get_parameter_source(param.name)
    if source is not None and source.name == "COMMANDLINE":
        context: Context = ctx.obj
        if param.name == "store":
            context.options["store"] = [*context.options.get("store", ()), *value]
        else:
            context.options[param.name] = value
    return value


def _help(ctx: typer.Context, value: bool) -> None:
    """Show the help of the command that the option was given to."""
    if value:
        from memctl.cli.help import write_help

        write_help(ctx)
        raise typer.Exit


def _version(ctx: typer.Context, value: bool) -> None:
    if value:
        from memctl import __version__

        context: Context = ctx.obj
        context.write(f"memctl {__version__}\n".encode())
        raise typer.Exit


def choice(*words: str) -> Callable[[str], list[str]]:
    """Complete an option's value to one of `words`."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _shared(
    *names: str,
    help: str,
    metavar: str | None = None,
    completion: Any = None,
    answer: Any = None,
    panel: str | None = None,
) -> Any:
    """Declare an option of several commands; `answer`, if given, is called instead of the command."""
    return typer.Option(
        *names,
        help=help,
        metavar=metavar,
        callback=answer or _keep,
        is_eager=answer is not None,
        expose_value=False,
        show_default=False,
        rich_help_panel=panel,
        autocompletion=completion,
    )


_option = partial(_shared, panel=PANEL)


def global_options(
    store: Annotated[
        list[str] | None,
        _option("--store", "-s", metavar="STORE", help="A file, a URL or a configured name. [MEMCTL_STORE]"),
    ] = None,
    schema: Annotated[
        str | None,
        _option("--schema", metavar="NAME", help="The schema of the store's tables. [MEMCTL_SCHEMA]"),
    ] = None,
    table: Annotated[
        str | None,
        _option("--table", metavar="NAME", help="The table, where it is not `store`. [MEMCTL_TABLE]"),
    ] = None,
    output: Annotated[
        str | None,
        _option(
            "--output",
            "-o",
            metavar="FORMAT",
            help=f"{', '.join(FORMATS)}. [MEMCTL_OUTPUT]",
            completion=choice(*FORMATS),
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        _option(
            "--timeout",
            metavar="SECONDS",
            help="How long to wait for a connection or a lock. [default: 10] [MEMCTL_TIMEOUT]",
        ),
    ] = None,
    immutable: Annotated[
        bool, _option("--immutable", help="Read a SQLite file on media at rest as it lies, without locks.")
    ] = False,
    as_of: Annotated[
        str | None,
        _option(
            "--as-of",
            metavar="TIME",
            help="Read CockroachDB as it was: now, follower (some 5 s ago, from any replica), -1h, a time.",
            completion=choice("now", "follower"),
        ),
    ] = None,
    dry_run: Annotated[
        bool, _option("--dry-run", "-n", help="Say what would be written, and write nothing.")
    ] = False,
    yes: Annotated[bool, _option("--yes", "-y", help="Do not ask.")] = False,
    quiet: Annotated[bool, _option("--quiet", "-q", help="No notes on standard error.")] = False,
    verbose: Annotated[bool, _option("--verbose", "-v", help="Say more.")] = False,
    debug: Annotated[
        bool, _option("--debug", help="Show SQL, without values, and the traceback of an error.")
    ] = False,
    no_color: Annotated[bool, _option("--no-color", help="No colour. [MEMCTL_NO_COLOR, NO_COLOR]")] = False,
    version: Annotated[bool, _option("--version", help="Show the version.", answer=_version)] = False,
    help: Annotated[bool, _option("--help", "-h", help="Show this help.", answer=_help)] = False,
) -> None:
    """The options that every command takes, before its name or after it."""


Namespace = Annotated[
    str | None,
    typer.Argument(metavar="NS", help="A namespace; its descendants are covered. `*` is any one label."),
]
Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="Text to find in any string of a value, in any case.")
]
In = Annotated[str | None, typer.Option("--in", metavar="NS", help="Only in this namespace and below.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="At most this many.")]
Vectors = Annotated[bool, typer.Option("--vectors", help="The embeddings too.")]
VectorFormat = Annotated[
    str,
    typer.Option(
        "--vector-format",
        metavar="FORM",
        help="base64 of little-endian float32, or list.",
        autocompletion=choice("base64", "list"),
    ),
]

Exactly = Annotated[
    str | None,
    typer.Argument(metavar="NS", help="A namespace, its descendants with --recursive. `*` is any one label."),
]
Keys = Annotated[list[str] | None, typer.Argument(metavar="KEY...", help="One key of NS or several.")]
Save = Annotated[
    str | None,
    typer.Option("--save", metavar="FILE", help="Write what goes to this new archive first."),
]
RoundTtl = Annotated[
    str | None,
    typer.Option(
        "--round-ttl",
        metavar="up",
        help="up: a fraction of a minute counts whole.",
        autocompletion=choice("up"),
    ),
]
NoSnapshot = Annotated[
    bool,
    typer.Option(
        "--no-snapshot", help="Read a live SQLite file in short ranges instead of copying it first."
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="OLD=NEW", help="Rename: 'prefs.{user}={user}.prefs'. The first that fits."
    ),
]
Dims = Annotated[
    int | None, typer.Option("--dims", metavar="N", min=1, help="With vectors, of this many dims.")
]
VectorType = Annotated[
    str | None,
    typer.Option(
        "--vector-type", metavar="TYPE", help="vector or halfvec.", autocompletion=choice("vector", "halfvec")
    ),
]
IndexKind = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="KIND",
        help="hnsw, ivfflat or flat.",
        autocompletion=choice("hnsw", "ivfflat", "flat"),
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="METRIC",
        help="cosine, l2 or inner_product.",
        autocompletion=choice("cosine", "l2", "inner_product"),
    ),
]


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
    regex: Annotated[bool, _shared("--regex", help="TEXT is a regular expression.")] = False,
    filters: Annotated[
        list[str] | None,
        _shared("--filter", metavar="COND", help="'PATH OP VALUE' or LangGraph's JSON; all must hold."),
    ] = None,
    since: Annotated[
        str | None, _shared("--since", metavar="TIME", help="A date, an instant, or an age: 45d.")
    ] = None,
    until: Annotated[
        str | None, _shared("--until", metavar="TIME", help="Up to and including this time.")
    ] = None,
    by: Annotated[
        str | None,
        _shared(
            "--by",
            metavar="COLUMN",
            help="What --since and --until look at: updated_at or created_at.",
            completion=choice("updated_at", "created_at"),
        ),
    ] = None,
    expired: Annotated[bool, _shared("--expired", help="Only what has expired.")] = False,
    live: Annotated[bool, _shared("--live", help="Only what has not expired.")] = False,
) -> None:
    """The selecting options, on every command that selects; see `selecting.read_selection`."""


def choosing(
    recursive: Annotated[bool, _shared("--recursive", help="NS's descendants too.")] = False,
    text: Annotated[
        str | None, _shared("--text", metavar="TEXT", help="Only items that say this, in any case.")
    ] = None,
    names: Annotated[
        str | None,
        _shared(
            "--from", metavar="FILE", help="The items named in a file, or - for standard input: `-o name`."
        ),
    ] = None,
    everything: Annotated[
        bool, _shared("--all", help="Mean everything, where neither NS nor a condition narrows it.")
    ] = False,
) -> None:
    """What `conditions` lacks to say which items are changed; see `choosing.Request`."""


def examining(
    against: Annotated[
        str | None,
        _shared(
            "--against",
            metavar="STORE",
            help="An older archive, or another store, that knows creation times.",
        ),
    ] = None,
    assume_overwritten: Annotated[
        bool,
        _shared(
            "--assume-overwritten", help="Take an item for as old as its oldest vector: created-at-drift."
        ),
    ] = False,
    dims: Annotated[
        str | None, _shared("--dims", metavar="N", help="How many dims vectors should have: vector-shape.")
    ] = None,
    threshold: Annotated[
        str | None,
        _shared(
            "--threshold", metavar="X", help="The cosine from which items are duplicates. [default: 0.95]"
        ),
    ] = None,
    subject_field: Annotated[
        str | None,
        _shared(
            "--subject-field", metavar="FIELD", help="Items that agree in it are duplicates: duplicates."
        ),
    ] = None,
    source_field: Annotated[
        str | None,
        _shared(
            "--source-field", metavar="FIELD", help="Where items name the thread they are from: provenance."
        ),
    ] = None,
) -> None:
    """What single checks need to know."""


def sharing(
    jobs: Annotated[
        int | None,
        _shared(
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
        _shared(
            "--on-conflict",
            metavar="WHAT",
            help="fail, skip, overwrite or newer, where an item is there and differs. [default: fail]",
            completion=choice("fail", "skip", "overwrite", "newer"),
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        _shared("--map", metavar="OLD=NEW", help="Rename: 'prefs.{user}={user}.prefs'. The first that fits."),
    ] = None,
    into: Annotated[
        str | None, _shared("--into", metavar="NS", help="Put this in front of every namespace.")
    ] = None,
    on_error: Annotated[
        str | None,
        _shared(
            "--on-error",
            metavar="WHAT",
            help="stop, or skip what cannot be brought in and bring in the rest. [default: stop]",
            completion=choice("stop", "skip"),
        ),
    ] = None,
    rejects: Annotated[
        str | None, _shared("--rejects", metavar="FILE", help="Write what cannot be brought in to this file.")
    ] = None,
    round_ttl: Annotated[
        str | None,
        _shared(
            "--round-ttl",
            metavar="up",
            help="up: a fraction of a minute counts whole.",
            completion=choice("up"),
        ),
    ] = None,
    no_vectors: Annotated[bool, _shared("--no-vectors", help="Without the embeddings.")] = False,
    drop_vectors: Annotated[
        bool, _shared("--drop-vectors", help="Leave out the vectors that the target cannot hold.")
    ] = False,
    init: Annotated[
        bool, _shared("--init", help="Make LangGraph's tables in the target where it has none.")
    ] = False,
) -> None:
    """The options of what brings items into a store; see `bringing.Options`."""
