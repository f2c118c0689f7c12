"""A report's metrics in Prometheus' text format, as its node exporter collects them from files.

The format is version 0.0.4: `# HELP` and `# TYPE`, then a line for each value; in a label's value backslash,
quote and line feed are escaped. Redirect into a file beside the final one and rename that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memctl.errors import UsageError
from memctl.render import Column, Report, Row, Target
from memctl.render.text import utf8
from memctl.render.writer import Writer

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


class Prometheus:
    """Only what has metrics can be shown so."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        raise _no_metrics()

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        raise _no_metrics()

    def report(self, report: Report) -> None:
        if not report.metrics:
            raise _no_metrics()
        with Writer(self._target.stream) as out:
            for metric in report.metrics:
                out.write(utf8(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n"))
                for labels, value in metric.values:
                    out.write(utf8(f"{metric.name}{_labels(labels)} {_number(value)}\n"))


def _no_metrics() -> UsageError:
    return UsageError("this answer has no metrics", hint="-o prometheus goes with `memctl doctor`")


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    for character, escape in _ESCAPES.items():
        value = value.replace(character, escape)
    return value


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
