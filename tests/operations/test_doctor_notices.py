"""`doctor` on notices: those that were given up, those that failed, and those that nobody takes."""

from datetime import timedelta
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.run.notices import MOST_ATTEMPTS, Notice, failed, new_notice
from perdure.operations.doctor_notices import notices

# Ahead of the check, however long the other tests take before it.
NOW = utc_now() + timedelta(days=1)
WAITING = new_notice({"run": "r1", "gate": "g1", "reminder": 0}, now=NOW)
FAILED = failed(WAITING.model_copy(update={"attempts": 3}), "It answered 500.", now=NOW)
DEAD = failed(WAITING.model_copy(update={"attempts": MOST_ATTEMPTS}), "It answered 500.", now=NOW)
LATE = WAITING.model_copy(update={"due_at": NOW - timedelta(days=2)})
NEWER = new_notice({"run": "r2", "gate": "g1", "reminder": 0}, now=NOW + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("kept", "state", "words"),
    [
        ([], "ok", "no channel is set here, 0 delivered"),
        ([WAITING], "ok", "no channel is set here"),
        ([FAILED, NEWER], "warning", "2 wait to be tried again: It answered 500."),
        ([LATE, NEWER], "warning", f"2 wait, the first since {LATE.due_at:%Y-%m-%d %H:%M} UTC"),
        ([DEAD, NEWER], "warning", "1 that no channel took"),
    ],
    ids=["none", "just made", "failed before a newer one", "late", "dead"],
)
async def test_notices_that_do_not_reach_people_are_told(
    tmp_path: Path, kept: list[Notice], state: str, words: str
) -> None:
    stores = await open_stores(tmp_path)
    for notice in kept:
        await stores.notices().put(notice)
    await stores.close()
    check = await notices(Settings.load(home=tmp_path))
    assert (check.state, check.found[: len(words)]) == (state, words)
