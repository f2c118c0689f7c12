"""Sizes and times as people say them."""

from __future__ import annotations

import pytest

from memctl.render.units import distance, minutes, moment, octets, seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1234, "1.2 kB"),
        (999_949, "999.9 kB"),
        (999_960, "1.0 MB"),
        (12_511_943, "12.5 MB"),
        (3 * 10**18, "3000.0 PB"),
    ],
)
def test_octets(count: int, text: str) -> None:
    assert octets(count) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0 s"), (24, "24 s"), (60, "1 min"), (5400, "1.5 h"), (30 * 86400, "30 d"), (-7200, "-2 h")],
)
def test_seconds(length: float, text: str) -> None:
    assert seconds(length) == text
    assert minutes(length / 60) == text


def test_moment_is_to_the_minute_and_keeps_what_is_no_instant() -> None:
    assert moment("2026-11-30T07:42:43.843759Z") == "2026-11-30 07:42"
    assert moment("infinity") == "infinity"


def test_distance() -> None:
    now = "2026-11-30T07:00:00.000000Z"
    assert distance("2026-11-30T10:00:00.000000Z", now) == " (in 3 h)"
    assert distance("2026-11-28T07:00:00.000000Z", now) == " (2 d ago)"
    assert distance("soon", now) == ""
