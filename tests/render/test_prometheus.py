"""Metrics in Prometheus' text format."""

from __future__ import annotations

import io

import pytest

from memctl.errors import UsageError
from memctl.render import Column, Metric, Report, Target, open_format


def shown(report: Report) -> str:
    stream = io.BytesIO()
    open_format("prometheus", Target(stream)).report(report)
    return stream.getvalue().decode()


def test_each_metric_is_explained_once() -> None:
    metrics = (
        Metric("memctl_things", "How many things.", [({"kind": "a"}, 2), ({"kind": "b"}, 0.5)]),
        Metric("memctl_time", "When.", [({}, 1796024563)]),
    )
    assert shown(Report({}, metrics=metrics)) == (
        "# HELP memctl_things How many things.\n"
        "# TYPE memctl_things gauge\n"
        'memctl_things{kind="a"} 2\n'
        'memctl_things{kind="b"} 0.5\n'
        "# HELP memctl_time When.\n"
        "# TYPE memctl_time gauge\n"
        "memctl_time 1796024563\n"
    )


def test_labels_are_escaped() -> None:
    metric = Metric("m", "M.", [({"store": 'C:\\a "b"\nc'}, 1)])
    assert shown(Report({}, metrics=(metric,))).splitlines()[-1] == r'm{store="C:\\a \"b\"\nc"} 1'


def test_what_has_no_metrics_is_refused() -> None:
    with pytest.raises(UsageError):
        shown(Report({"items": 1}))
    document = open_format("prometheus", Target(io.BytesIO()))
    with pytest.raises(UsageError):
        document.rows((Column("a"),), [])
    with pytest.raises(UsageError):
        document.items((Column("a"),), [])
