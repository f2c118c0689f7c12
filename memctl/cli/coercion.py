"""Values of arguments and options, made of the words that were typed.

Typer (0.29) has pydantic do this, whose import alone takes longer than a small `ls`, and loads it even for
options that were not given. memctl's parameters are text, whole numbers and paths, one or several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import typer


def coerce_plainly(params: Iterable[Any]) -> None:
    """Let these parameters make their values themselves; those of other types are left to Typer."""
    for param in params:
        annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        parts = get_args(annotation) if get_origin(annotation) in (list, tuple) else (annotation,)
        if set(parts) <= {str, int, Path}:
            param._runtime_param = Plain(parts[0], param.min, param.max)


@dataclass(frozen=True, slots=True)
class Plain:
    """Makes the value of one parameter; stands in for `typer._coercion.RuntimeParam`."""

    kind: type
    least: float | None
    most: float | None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value, as a list or tuple where there may be several. Raises BadParameter."""
        if param.multiple or param.nargs == -1:
            return [self._one(each, param, ctx) for each in value or ()]
        if value is None:
            return None
        if param.nargs > 1:
            return tuple(self._one(each, param, ctx) for each in value)
        return self._one(value, param, ctx)

    def _one(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.kind is not int or isinstance(value, int):
            return self.kind(value)
        try:
            number = int(value)
        except ValueError:
            raise typer.BadParameter(f"{value!r} is no whole number", ctx=ctx, param=param) from None
        if self.least is not None and number < self.least:
            raise typer.BadParameter(f"{number} is less than {self.least}", ctx=ctx, param=param)
        if self.most is not None and number > self.most:
            raise typer.BadParameter(f"{number} is more than {self.most}", ctx=ctx, param=param)
        return number
