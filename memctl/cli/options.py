"""Options that several commands share, each written once.

Annotations are evaluated here, once, and not left as text: Typer would evaluate them four times a command.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from memctl.cli.context import Context
from memctl.render import FORMATS

PANEL = "Global options"


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


def shared(
    *names: str,
    help: str,
    metavar: str | None = None,
    completion: Any = None,
    answer: Any = None,
    panel: str | None = None,
    min: int | None = None,
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
        min=min,
    )


_option = partial(shared, panel=PANEL)


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
