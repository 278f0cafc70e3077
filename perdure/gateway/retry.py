"""Retries: a failed run continues under its own id in a new execution, with its spend."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.agent.result import agent_budget
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentState, forgiving_agent
from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.budget.journal import Journal
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import DelegationState
from perdure.domain.delegation.state import cleared as cleared_course
from perdure.domain.delegation.state import first_state as first_of_delegation
from perdure.domain.foundation.errors import NotAllowed, NotFound, PerdureError
from perdure.domain.foundation.names import EXPERIMENT_WORKFLOW
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.refine.resume import cleared, forgiving
from perdure.domain.refine.resume import first_state as first_of_refine
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import RefineState
from perdure.domain.roles.resume import cleared as cleared_rework
from perdure.domain.roles.resume import first_state as first_of_roles
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.state import RoleState
from perdure.domain.run.child_runs import child_number
from perdure.domain.run.control import is_repeat, reused_id_refusal
from perdure.domain.run.messages import Receipt, Retry
from perdure.domain.run.resume import anew, booked_of, retry_of
from perdure.domain.run.state import LoopState
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.specs import Spec
from perdure.domain.turns.settings import resolve
from perdure.gateway.error_mapping import unknown_run
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere, known_there, other_namespace_error
from perdure.gateway.saved_states import StoredStates
from perdure.gateway.start import Starter, order_of
from perdure.gateway.stored_status import amended_limits, first_status, torn_lifecycle
from perdure.gateway.temporal_gateway import TemporalGateway

MOST_CHILDREN = 10_000
HAD_EFFECT = "had its effect"
# A run tells its end, and closes in a later task.
CLOSING_LOOKS, CLOSING_S = 40, 0.25


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """Continues failed runs."""

    server: TemporalGateway
    blobs: BlobStore
    records: RecordStore
    journal: Journal
    states: StoredStates
    starter: Starter
    now: Callable[[], datetime]

    async def retry(self, run: str, message: Retry) -> Receipt:
        """Continue after a failure; an open run gets the verb itself (see `Gateway.verb`)."""
        look = await self.server.look(run)
        if look is not None and look.open:
            try:
                return await self.server.update(run, "retry", message)
            except NotFound:
                look = await self.server.look(run)  # it has ended in between
            except NotAllowed:
                look = await self._ended(run)
                if look is None:
                    raise
        row = await self.records.run(run)
        if row is None:
            raise unknown_run(run) if look is None else _not_ours(run)
        # The state of an earlier retry contains the id of its request, so a repeat is found.
        state, _ = await self.states.newest(row)
        if state is not None and is_repeat(state.control, message):
            if why := reused_id_refusal(state.control, message):
                raise NotAllowed(f"retry: {why}")
            return Receipt(verb="retry", lifecycle=row.lifecycle, note=HAD_EFFECT)
        await self._require_undecided(row, look)
        _require_failed(row, look)
        away = None if look is not None else await elsewhere(self.server, row)
        if away is not None and await known_there(self.server, run, away):
            raise other_namespace_error(run, away)
        await self._start_again(row, look, message, state)
        return Receipt(verb="retry", lifecycle="running")

    async def _ended(self, run: str) -> ExecutionInfo | None:
        """A run whose end is told already, once the server has closed it; None for another."""
        row = await self.records.run(run)
        if row is None or row.ended_at is None:
            return None
        for _ in range(CLOSING_LOOKS):
            look = await self.server.look(run)
            if look is not None and not look.open:
                return look
            await asyncio.sleep(CLOSING_S)
        return None

    async def _require_undecided(self, row: StoredRun, look: ExecutionInfo | None) -> None:
        """Refuse what a run above or an experiment decides on; other workflows do not mind."""
        parent = row.parent or (look.parent if look is not None else None)
        if parent is None:
            return
        if row.parent is not None or await self.records.run(parent) is not None:
            cure = f"Retry that one: perdure retry {parent}"
        elif await self._is_experiment(parent):
            cure = (
                f"See what it made of it: perdure experiment report {parent}. For another try, "
                "start another experiment."
            )
        else:
            return
        raise NotAllowed(
            f"{row.id} works for {parent}, which decides what happens after it.", cure=cure
        )

    async def _is_experiment(self, id: str) -> bool:
        look = await self.server.look(id)
        return look is not None and look.kind == EXPERIMENT_WORKFLOW

    async def _start_again(
        self, row: StoredRun, look: ExecutionInfo | None, message: Retry, state: LoopState | None
    ) -> None:
        spec = _forgiven(await self.states.spec(row), state)
        # Check for workers before changing anything: without one, the run stays failed.
        site, busy = await self.starter.ready_site(spec)
        ended_at = row.ended_at or (look.closed_at if look else None) or self.now()
        if look is not None:
            # Seal the failed execution, so that none of its steps can still spend.
            await self.journal.seal_and_sum(look.execution)
        # Children of the failed execution may still be open, so new children get higher numbers.
        children = await self._close_children(row.id)
        before = _usable(state) or _fresh(spec, _began(row), state)
        now = self.now()
        following = retry_of(
            before.model_copy(update={"budget": _as_amended(before.budget, spec, row)}),
            booked=booked_of(await self.journal.tree(root=row.id, run=row.id)),
            now=now,
            ended_at=ended_at,
            note=message.note,
            request_id=message.request_id,
        )
        started = max(children, following.children_started)
        following = following.model_copy(update={"children_started": started})
        digest = row.digest or (look.memo.get("spec", "") if look is not None else "")
        order = order_of(
            spec, row.id, site, digest=digest, state=following, made_at=now, again=True
        )
        # Claim the row first, by its old end time: of concurrent retries, only one succeeds.
        await self._reopen(row, spec, following.budget.limits, busy=busy)
        try:
            started = await self.server.start(order)
        # Nothing was started, so restore the row of the failed run.
        except PerdureError:
            await self.records.put_run(row)
            raise
        if not started:
            raise _taken(row.id)

    async def _close_children(self, run: str) -> int:
        """Stop all spending below the failed execution; returns the highest child number."""
        rows = await self.records.find_runs(prefix=f"{run}.", limit=MOST_CHILDREN)
        children = [row.id for row in rows if row.parent == run]
        for child in children:
            await self.journal.seal_tree(root=run, run=child)
        return max((child_number(child, run) for child in children), default=0)

    async def _reopen(
        self, row: StoredRun, spec: Spec, limits: BudgetLimits, *, busy: str | None
    ) -> None:
        """Mark the row as running; of concurrent retries, only one succeeds."""
        begun = first_status(spec, row.id, now=row.started_at, dispatch=busy)
        budget = begun.budget.model_copy(update={"limits": limits})
        status = begun.model_copy(update={"budget": budget})
        reopened = row.model_copy(
            update={
                "lifecycle": "running",
                "outcome": None,
                "ended_at": None,
                "result": None,
                "namespace": (await self.server.client()).namespace,
                "status": status.model_dump_json(),
                "spec": await self.blobs.put(spec.model_dump_json(by_alias=True).encode()),
            }
        )
        # Such a row cannot decide between two retries. The server does: it starts an id only once.
        if row.ended_at is None:
            await self.records.put_run(reopened)
        elif not await self.records.reopen_run(reopened, ended_at=row.ended_at):
            raise _taken(row.id)


def _began(row: StoredRun) -> datetime:
    """When a run began: by the server if its status says so, else by the host that started it."""
    if row.status is None:
        return row.started_at
    told = read_stored(RunStatus, row.status, what=f"the status of {row.id}").started_at
    return told or row.started_at


def _as_amended(budget: Budget, spec: Spec, row: StoredRun) -> Budget:
    """The budget of a state with the limits that people set since.

    The state in which a run ended has them. One after an iteration, or a fresh one, does not.
    """
    limits = amended_limits(budget.limits, asked=spec.budget, row=row)
    return budget.model_copy(update={"limits": limits})


def _require_failed(row: StoredRun, look: ExecutionInfo | None) -> None:
    stands = row.lifecycle
    if row.ended_at is None:
        stands = torn_lifecycle(look.ending) if look is not None and look.ending else "failed"
    if stands != "failed":
        outcome = f" ({row.outcome})" if row.outcome else ""
        raise NotAllowed(
            f"{row.id} is {stands}{outcome}; `retry` goes on after a failure only.",
            cure=f"Start from one of its iterations: perdure fork {row.id} --from-iteration N",
        )


def _forgiven(spec: Spec, state: LoopState | None) -> Spec:
    """The specification with extra iterations for those that the failure cost."""
    if isinstance(spec, AgentSpec):
        lost = isinstance(state, AgentState) and state.turn.iteration > 0
        return forgiving_agent(spec) if lost else spec
    if isinstance(spec, RefineSpec) and isinstance(state, RefineState):
        return forgiving(spec, state.failures_in_a_row)
    return spec


def _usable(state: LoopState | None) -> LoopState | None:
    """The state to continue from; None if the run failed before its first iteration."""
    match state:
        case RefineState() if state.iteration > 0:
            return cleared(state)
        case DelegationState() if state.course.iteration > 0:
            return cleared_course(state)
        case RoleState() if state.begun or state.iteration > 0:
            return cleared_rework(state)
        case AgentState() if state.turn.head is not None and state.record_count > 0:
            return state
        case _:
            return None


def _fresh(spec: Spec, at: datetime, before: LoopState | None) -> LoopState:
    """A fresh state that keeps limits and guidance from people."""
    fresh: LoopState
    if isinstance(spec, AgentSpec):
        fresh = AgentState(started_at=at, budget=agent_budget(spec, resolve(spec.agent)))
    elif isinstance(spec, DelegationSpec):
        fresh = first_of_delegation(spec, at=at)
    elif isinstance(spec, RolesSpec):
        fresh = first_of_roles(spec, at=at)
    else:
        fresh = first_of_refine(spec, at=at)
    return fresh if before is None else anew(fresh, before)


def _taken(run: str) -> NotAllowed:
    return NotAllowed(
        f"{run} goes on already: somebody else retried it.", cure=f"Watch it: perdure watch {run}"
    )


def _not_ours(run: str) -> NotAllowed:
    return NotAllowed(
        f"The store has nothing of {run}, so it cannot go on.", cure="Start it again as a new run."
    )
