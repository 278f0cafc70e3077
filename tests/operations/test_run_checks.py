"""`doctor` on open runs: it looks at many, and says how far it looked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from kept_schedules import MemorySchedules

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.errors import NotFound
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.domain.schedules.plan import SchedulePlan, Times
from perdure.gateway.schedules import MISSING
from perdure.gateway.server_pauses import PAUSED_THERE
from perdure.gateway.types import FailingRun, FailingRuns, RunFilter, RunPage, RunRow
from perdure.gateway.visibility import BEGINS_LATER
from perdure.gateway.worker_probe import QueueLimit
from perdure.interfaces.services import Check
from perdure.operations import doctor_checks
from perdure.operations.doctor_checks import how_far, schedules, waiting_runs

WAITS = "waiting for the store since 10:00:00 UTC: it is full; tried once"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def _status(run: str, **more: object) -> RunStatus:
    given = {"id": run, "kind": "agent", "goal": "g", "lifecycle": "running", "phase": "starting"}
    return RunStatus.model_validate(
        {**given, "started_at": AT, "budget": BudgetStatus(limits=BudgetLimits()), **more}
    )


@dataclass
class Listed:
    """So many open runs of a lifecycle, the newest first; the last one waits for its store."""

    runs: int
    gone: str = ""
    lifecycle: str = "running"
    asked: list[str] = field(default_factory=list)

    @property
    def gateway(self) -> "Listed":
        return self

    async def list(self, wanted: RunFilter) -> RunPage:
        first = int(wanted.cursor or 0)
        runs = self.runs if wanted.status == self.lifecycle else 0
        names = [f"r{number}" for number in range(runs)][first : first + wanted.limit]
        rows = [
            RunRow.model_validate(
                {"id": name, "kind": "agent", "goal": "g", "lifecycle": "running", "started_at": AT}
            )
            for name in names
        ]
        following = first + len(names)
        more = str(following) if following < runs else None
        return RunPage(runs=tuple(rows), cursor=more)

    async def status(self, run: str) -> RunStatus:
        if run == self.gone:
            raise NotFound(f"There is no run {run}.")
        self.asked.append(run)
        return _status(run, trouble=WAITS if run == f"r{self.runs - 1}" else None)

    @asynccontextmanager
    async def connect(self, **_given: object) -> AsyncGenerator["Listed"]:
        yield self


@pytest.mark.parametrize(
    ("why", "restarts"),
    [("The database p://h/d refused the login or the rights (no)", True), ("it is full", False)],
    ids=["login", "full"],
)
async def test_a_worker_whose_login_the_store_refuses_does_not_go_on_by_itself(
    monkeypatch: pytest.MonkeyPatch, why: str, restarts: bool
) -> None:
    """Doctor itself may have the new password, and the worker the old one."""
    monkeypatch.setitem(globals(), "WAITS", f"waiting for the store since 10:00:00 UTC: {why}")
    (check,) = [one async for one in waiting_runs(Listed(1).connect)]  # type: ignore[arg-type]
    assert ("restart all workers" in check.cure) is restarts
    assert ("nothing has to be restarted" in check.cure) is not restarts


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        pytest.param(1, [("run r0", WAITS)], id="one"),
        pytest.param(75, [("run r74", WAITS)], id="beyond the first page"),
        pytest.param(200, [("run r199", WAITS)], id="as many as are looked at"),
        pytest.param(
            201,
            [
                (
                    "runs",
                    "only the newest 200 open runs were asked what they wait for; there are more",
                )
            ],
            id="more",
        ),
    ],
)
async def test_open_runs_are_asked_what_they_wait_for(
    runs: int, found: list[tuple[str, str]]
) -> None:
    listed = Listed(runs)
    checks = [check async for check in waiting_runs(listed.connect)]  # type: ignore[arg-type]
    assert [(check.name, check.found) for check in checks] == found
    assert all(check.cure for check in checks)
    assert len(listed.asked) == min(runs, doctor_checks.LOOKED_AT)


UNPAUSE = "`temporal workflow unpause --workflow-id r1` lets it go on."
LIMIT = QueueLimit(queue="q", per_second=0.1, by="ann", reason="Start one with me, `temporal x`.")
NOBODY = "no worker has taken the run itself from the queue q for 9 s: none is there."


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param({"dispatch": "dispatched"}, [], id="at work"),
        pytest.param({"dispatch": "pending"}, [], id="young"),
        pytest.param(
            {"dispatch": f"{NOBODY} Start one with `perdure worker`."},
            [(NOBODY, "Start one with `perdure worker`.")],
            id="no worker",
        ),
        pytest.param(
            {"dispatch": f"{NOBODY[:-1]}; and {LIMIT.words}. {LIMIT.cure}"},
            [(f"{NOBODY[:-1]}; and {LIMIT.words}.", LIMIT.cure)],
            id="limited queue",
        ),
        pytest.param({"dispatch": BEGINS_LATER.format(at="noon")}, [], id="begins later"),
        pytest.param(
            {"dispatch": "dispatched", "trouble": f"{PAUSED_THERE} by ops: no step. {UNPAUSE}"},
            [(f"{PAUSED_THERE} by ops: no step.", UNPAUSE)],
            id="paused at the server",
        ),
    ],
)
def test_only_what_somebody_can_mend_is_told(
    status: dict[str, str], told: list[tuple[str, str]]
) -> None:
    checks = doctor_checks._waits(_status("r1", **status))
    assert [(check.found, check.cure) for check in checks] == told


@pytest.mark.parametrize("lifecycle", ["running", "waiting", "paused"])
async def test_open_runs_of_every_lifecycle_are_asked(lifecycle: str) -> None:
    listed = Listed(3, lifecycle=lifecycle)
    checks = [check async for check in waiting_runs(listed.connect)]  # type: ignore[arg-type]
    assert [(check.name, check.found) for check in checks] == [("run r2", WAITS)]


async def test_a_run_that_went_meanwhile_hides_no_other() -> None:
    listed = Listed(3, gone="r1")
    checks = [check async for check in waiting_runs(listed.connect)]  # type: ignore[arg-type]
    assert [check.name for check in checks] == ["run r2"]


def _failing(*, open_: int, looked_at: int, named: bool) -> FailingRuns:
    one = FailingRun(run="r1", found="its code failed", cure="repair it")
    return FailingRuns(runs=(one,), open=open_, looked_at=looked_at, server_names_them=named)


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        pytest.param(
            _failing(open_=5, looked_at=5, named=True),
            Check(name="failing runs", state="ok", found="1 of 5 open runs"),
            id="all",
        ),
        pytest.param(
            _failing(open_=300, looked_at=200, named=True),
            Check(
                name="failing runs",
                state="ok",
                found="1 of 300 open runs: among the newest 200, and of the others, those that "
                "have failed for more than a minute",
            ),
            id="the server names the others",
        ),
        pytest.param(
            _failing(open_=300, looked_at=200, named=False),
            Check(
                name="failing runs",
                state="warning",
                found="1 of 300 open runs: only the newest 200 were looked at, 100 were not",
                cure="`perdure status ID` says it of one. End what nobody needs any more.",
            ),
            id="nobody names the others",
        ),
        pytest.param(
            _failing(open_=4, looked_at=6, named=False),
            Check(name="failing runs", state="ok", found="1 of 4 open runs"),
            id="some ended meanwhile",
        ),
    ],
)
def test_how_far_was_looked_is_told(failing: FailingRuns, told: Check) -> None:
    assert how_far(failing) == told


@dataclass
class Scheduled:
    """Schedules in memory, as `doctor` is handed them."""

    kept: MemorySchedules

    def schedules(self) -> MemorySchedules:
        return self.kept

    @asynccontextmanager
    async def connect(self, **_: object) -> AsyncGenerator["Scheduled"]:
        yield self


async def test_schedules_that_start_nothing_or_are_refused_are_told() -> None:
    kept = MemorySchedules()
    assert await _found(Scheduled(kept)) == []
    for name in ("fine", "held", "lost"):
        times = Times(every_s=3_600)
        plan = SchedulePlan(name=name, kind="agent", task={"goal": "g"}, times=times)
        await kept.create(plan, paused=name == "held")
    await kept.trigger("held")
    lost = {"state": "missing", "problem": MISSING}
    kept.kept["lost"] = kept.kept["lost"].model_copy(update=lost)
    kept.strays = ["stray"]
    stray, held, gone, all_of_them = await _found(Scheduled(kept))
    assert stray.found == "stray: the server has it, and the database does not know it"
    assert (stray.state, "perdure schedule delete stray" in stray.cure) == ("warning", True)
    assert held.found == "held: 1 start of this month refused: its budget is spent"
    assert gone.found == f"lost: {MISSING}"
    assert (gone.state, gone.cure) == ("warning", "Look at it: perdure schedule show lost")
    assert (all_of_them.state, all_of_them.found) == ("ok", "3 schedules, 1 paused")


async def _found(scheduled: Scheduled) -> list[Check]:
    return [check async for check in schedules(scheduled.connect)]  # pyright: ignore[reportArgumentType]
