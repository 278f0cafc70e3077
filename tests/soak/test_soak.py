"""R50, R41: many runs at once on two hosts and two versions, under faults that a seed plays again.

`make soak` is the same at full size.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from provider import Line

from perdure.domain.budget.journal import AttemptRow, AttemptState
from perdure.domain.llm.usage import Usage
from tests.soak.books import Books
from tests.soak.faults import FAULTS, timetable
from tests.soak.soak import report, soaking


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_plays_the_same_faults_again(seed: int) -> None:
    plan = timetable(seed, seconds=600)
    assert plan == timetable(seed, seconds=600)
    assert plan != timetable(seed + 1, seconds=600)
    assert {one.fault for one in plan} == set(FAULTS), "all of them come"
    assert [one.at for one in plan] == sorted(one.at for one in plan)
    assert all(0 < one.at < 600 for one in plan)


def _line(tokens_in: int, tokens_out: int) -> Line:
    return Line(
        call=0, attempt=1, hash="h", input_tokens=tokens_in, output_tokens=tokens_out, at=0.0
    )


def _row(tokens_in: int, tokens_out: int, state: AttemptState = "answered") -> AttemptRow:
    return AttemptRow(
        key="k",
        attempt=1,
        root="run",
        run="run",
        phase="executing",
        role="executor",
        iteration=1,
        model="m",
        state=state,
        usage=Usage(input_tokens=tokens_in, output_tokens=tokens_out),
        cost_usd=Decimal(0),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("ledger", "rows", "wrong"),
    [
        ([_line(9, 1)], [_row(9, 1)], ""),
        ([_line(9, 1), _line(9, 2)], [_row(9, 1), _row(20, 90, "lost")], ""),
        ([], [_row(9, 1)], "never billed"),
        ([_line(9, 1)], [_row(9, 1), _row(9, 1)], "never billed"),
        ([_line(9, 1), _line(9, 2)], [_row(9, 1)], "no lost attempt answers for"),
        ([_line(9, 1), _line(9, 2)], [_row(9, 1), _row(5, 1, "lost")], "billed unheard"),
        ([_line(9, 1), _line(9, 1)], [_row(9, 1)], "cannot be told apart"),
    ],
    ids=["whole", "lost", "invented", "twice", "forgotten", "booked too low", "alike"],
)
def test_the_account_sees_what_does_not_agree(
    ledger: Sequence[Line], rows: Sequence[AttemptRow], wrong: str
) -> None:
    books = Books(rows=list(rows))
    books.close(ledger)
    assert any(wrong in one for one in books.wrong) if wrong else books.wrong == []


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1, 2])
async def test_r50_many_runs_under_mixed_faults(tmp_path: Path, seed: int) -> None:
    told: list[str] = []
    async with soaking(tmp_path, runs=30, seconds=180, seed=seed, tell=told.append) as soak:
        books, balance = await soak.go()
    assert not books.wrong, "\n".join([*told, *report(soak, books, balance)])
