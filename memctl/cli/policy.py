"""`memctl policy check FILE`: what a retention policy says, and what it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import choice
from memctl.errors import UsageError

if TYPE_CHECKING:
    from memctl.retention import Policy


def policy(
    ctx: typer.Context,
    action: Annotated[str, typer.Argument(metavar="check", autocompletion=choice("check"))],
    file: Annotated[str, typer.Argument(metavar="FILE", help="A retention policy: [[rule]] tables in TOML.")],
    item: Annotated[
        tuple[str, str] | None,
        typer.Option("--item", metavar="NS KEY", help="Only say what becomes of this item, and why."),
    ] = None,
) -> None:
    """Check a retention policy, and explain which rule decides about what, what would go, and when.

    Nothing is deleted; `memctl sweep --policy FILE` does that. Where no store is named, only the file is checked.
    A rule has a namespace, a filter (or a list of them), and keep = "7d" or "forever", counted since =
    "updated_at" or "created_at", or keep_last = 500. The first rule that fits an item decides; where
    a filter cannot be judged, since the value cannot be read, the item is left alone.

    Examples:
      memctl policy check retention.toml
      memctl policy check retention.toml --item users.ana.facts diet
    """
    from memctl.cli.curating import refuse_formats
    from memctl.cli.policy_report import explain_item, explain_rules, explain_store

    context: Context = ctx.obj
    if action != "check":
        raise UsageError(f"policy {action}: there is only `policy check FILE`")
    refuse_formats(context)
    rules = read_policy(context, file)
    try:
        address = context.address()
    except UsageError as error:
        if error.code != "no-store-named" or item is not None:
            raise
        explain_rules(context, rules, file)
        return
    store = context.open_at(address)
    if item is not None:
        explain_item(context, rules, store, *item)
    else:
        explain_store(context, rules, store)


def read_policy(context: Context, file: str) -> Policy:
    """Read a policy from a file. Raises UsageError."""
    from memctl.retention import parse

    try:
        text = context.file(file).read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no UTF-8") from None
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", hint=error.hint, code="bad-policy") from None
