"""What the companions of a soak reckon with."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.soak.companions.schedules import Clocked
from tests.soak.pace import Pace

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("seconds", [60.0, 150.0, 600.0, 3_600.0])
def test_runs_and_blobs_are_kept_for_longer_than_the_clocks_are_apart(seconds: float) -> None:
    pace = Pace(seconds)
    apart = timedelta(minutes=pace.clocks[0] - pace.clocks[1])
    assert apart <= pace.young < pace.kept
    assert pace.kept + pace.young < timedelta(seconds=seconds), "some are dropped in its time"


@pytest.mark.parametrize(
    ("active", "unsure", "due"),
    [
        ([(0.0, 30.0)], 0.0, ["00:00:10", "00:00:20", "00:00:30"]),
        ([(5.0, 29.0)], 0.0, ["00:00:10", "00:00:20"]),
        ([(5.0, 29.0)], 5.5, ["00:00:20"]),
        ([(5.0, 19.0)], -2.0, ["00:00:10", "00:00:20"]),
        ([(5.0, 15.0), (35.0, 45.0)], 0.0, ["00:00:10", "00:00:40"]),
        ([(5.0, 8.0)], 0.0, []),
    ],
    ids=["whole", "between", "less sure", "at most", "paused", "none"],
)
def test_the_starts_that_are_due(
    active: list[tuple[float, float]], unsure: float, due: list[str]
) -> None:
    times = [(MIDNIGHT + begun, MIDNIGHT + ended) for begun, ended in active]
    one = Clocked("news", 60_000, 10, "skip", active=times)
    assert one.due(unsure_s=unsure) == {f"news-2026-01-02T{at}Z" for at in due}
