"""The option `--fail-on-skip`: what was not run counts as failed, so that a missing tool is no success.

It covers skipped tests, modules skipped while they are collected, and `xfail(run=False)`. A test that ran and
failed as `xfail` says stays an expected failure.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fail-on-skip", action="store_true", help="count every skipped test as failed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--fail-on-skip"):
        expected = getattr(report, "wasxfail", None)
        if expected is None or "[NOTRUN]" in expected:
            report.__dict__.pop("wasxfail", None)
            _fail(report, expected)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and collector.config.getoption("--fail-on-skip"):
        _fail(report, None)
    return report


def _fail(report: Any, reason: str | None) -> None:
    if reason is None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"not run, and --fail-on-skip allows none: {reason.removeprefix('Skipped: ')}"
