"""The arithmetic of a day's store, on sizes that are known, and against a small real day."""

import pytest

from benchmarks.day import INDEX_FILL, MAPS_BYTES, ORDERED_FILL, TABLE_FILL, Index, Need, row_bytes
from benchmarks.simulate import simulate


@pytest.mark.parametrize(
    ("index", "rows", "distinct", "key", "size"),
    [
        pytest.param(Index(True, ("id",)), 10, 10, 16, 10 * 28 / INDEX_FILL, id="random keys"),
        pytest.param(
            Index(False, ("started_at", "id")), 10, 10, 20, 10 * 36 / ORDERED_FILL, id="in order"
        ),
        pytest.param(
            Index(False, ("run",)), 11, 1, 16, (28 + 11 * 6) / INDEX_FILL, id="shared keys"
        ),
        pytest.param(
            Index(True, ("start_key",)), 10, 0, 0, 10 * 6 / INDEX_FILL, id="rows without a key"
        ),
        pytest.param(Index(False, ("id",), "ended_at IS NULL"), 0, 0, 0, 0, id="no row of its own"),
    ],
)
def test_an_index_needs_what_its_entries_do(
    index: Index, rows: int, distinct: int, key: float, size: float
) -> None:
    assert index.bytes(rows, distinct, key) == pytest.approx(size)


def test_a_row_that_is_written_twice_takes_two_places_but_its_long_values_one() -> None:
    short = row_bytes([100])
    assert short == pytest.approx((128 + 4) / TABLE_FILL)
    assert row_bytes([100], writings=2) == pytest.approx(2 * short)
    long, twice = row_bytes([100, 5_000]), row_bytes([100, 5_000], writings=2)
    assert twice - long == pytest.approx((144 + 4) / TABLE_FILL)
    assert long > 5_000


def test_a_table_has_its_maps_once() -> None:
    need = Need(1, 100.0, 10.0)
    assert need.times(50).with_maps() == Need(50, 5_000.0 + MAPS_BYTES, 500.0)


@pytest.mark.long
async def test_a_small_day_is_played_measured_and_collected() -> None:
    report = (await simulate(runs=24, turns=2)).splitlines()
    day = report[report.index("") :]
    ratios = {line.split(":")[0]: line.split()[-1] for line in day if ": rows" in line}
    assert ratios.keys() == {"runs", "iterations", "attempts", "replies", "blobs"}
    assert {name for name, ratio in ratios.items() if ratio == "1.00"} >= ratios.keys() - {"blobs"}
    (dropped,) = [line.split() for line in day if line.startswith("gc: blobs dropped")]
    assert dropped[-1] == "1.00", dropped
