"""A progress bar on standard error: on a terminal only, and silent for what is over at once."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memctl.cli.context import Context

Advance = Callable[[int], None]

_EVERY = 500


@contextmanager
def progress(context: Context, what: str, expected: int | None) -> Iterator[Advance]:
    """Give a function to be told how many more items are done; `expected` items are a full bar."""
    stream = context.environment.stderr
    if context.is_quiet or not context.environment.is_terminal(stream):
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    text = io.TextIOWrapper(stream, "utf-8", "replace", write_through=True)
    console = Console(
        file=text,
        force_terminal=True,
        no_color=not context.has_color(stream),
        width=context.environment.columns(),
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        *((TaskProgressColumn(), TimeRemainingColumn()) if expected else ()),
    )
    done = shown = 0
    try:
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=expected, rate="")

            def advance(count: int) -> None:
                nonlocal done, shown
                done += count
                if done - shown >= _EVERY:
                    shown = done
                    elapsed = bar.tasks[0].elapsed or 0
                    bar.update(task, completed=done, rate=f"{done / elapsed:,.0f} items/s" if elapsed else "")

            yield advance
    finally:
        text.detach()  # the bar writes to the last


def _nothing(_count: int) -> None:
    """Tell nobody."""
