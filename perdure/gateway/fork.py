"""Forks: a new run that continues from an iteration of another run, with changed settings.

Everything comes from the store, so the other run may be open or ended, and needs no history.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.agent.result import agent_budget
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentState
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import DelegationState, delegation_fork
from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.refine.resume import refine_fork
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import RefineState
from perdure.domain.roles.resume import role_fork
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.state import RoleState
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import fork_of, inherited, with_records
from perdure.domain.run.state import LoopState
from perdure.domain.specs import Spec
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.settings import resolve
from perdure.gateway.saved_states import StoredStates
from perdure.gateway.start import Beginning, Starter
from perdure.gateway.types import Wanted


@dataclass(frozen=True, kw_only=True)
class Forking:
    """Starts forks."""

    states: StoredStates
    starter: Starter
    now: Callable[[], datetime]

    async def spec(self, run: str, iteration: int) -> Spec:
        """The specification that a fork starts from; see `Gateway.fork_spec`."""
        row = await self.states.row(run)
        spec = await self.states.spec(row)
        state, _ = await self.states.after(row, iteration)
        return _in_force(spec, state)

    async def fork(
        self,
        run: str,
        iteration: int,
        spec: Spec,
        *,
        fork_id: str | None,
        key: str | None,
        wanted: Wanted | None = None,
    ) -> str:
        """Start the fork; see `Gateway.fork`."""
        row = await self.states.row(run)
        state, records = await self.states.after(row, iteration)
        # The rubric may have been amended since this iteration was scored.
        before = _in_force(await self.states.spec(row), state)
        _require_fitting(run, before, spec, state, records)
        origin = Origin(run=run, iteration=iteration)
        first = _first_state(state, spec, before=before, now=self.now(), origin=origin)
        # Records are copied, since the other run may be deleted while the fork goes on.
        taken = inherited(records, run)
        beginning = Beginning(state=with_records(first, taken), records=taken)
        return await self.starter.start(
            spec, run=fork_id, key=key, beginning=beginning, wanted=wanted
        )


def _in_force(spec: Spec, state: LoopState) -> Spec:
    """The specification with the rubric that was current at this state."""
    if isinstance(spec, RefineSpec) and isinstance(state, RefineState) and state.rubric:
        return spec.model_copy(update={"rubric": state.rubric})
    return spec


def _first_state(
    state: LoopState, spec: Spec, *, before: Spec, now: datetime, origin: Origin
) -> LoopState:
    if isinstance(spec, RefineSpec) and isinstance(state, RefineState):
        known = before.rubric if isinstance(before, RefineSpec) else spec.rubric
        return refine_fork(state, spec, before=known, now=now, origin=origin)
    if isinstance(spec, DelegationSpec) and isinstance(state, DelegationState):
        told = before if isinstance(before, DelegationSpec) else spec
        return delegation_fork(state, spec, before=told, now=now, origin=origin)
    if isinstance(spec, RolesSpec) and isinstance(state, RoleState):
        return role_fork(state, spec, before=before, now=now, origin=origin)
    if not isinstance(spec, AgentSpec) or not isinstance(state, AgentState):
        raise TypeError(f"a {type(spec).__name__} cannot go on from a {type(state).__name__}")
    say = None if spec.goal == before.goal else f"The task is now: {spec.goal}"
    limits = agent_budget(spec, resolve(spec.agent)).limits
    return fork_of(state, now=now, limits=limits, origin=origin, say=say)


def _require_fitting(
    run: str, before: Spec, spec: Spec, state: LoopState, records: tuple[IterationRecord, ...]
) -> None:
    """Refuse settings that the state cannot be continued with."""
    if spec.kind != before.kind:
        raise InvalidInput(
            f"kind: found {spec.kind}; a fork has the kind of its run, {before.kind}.",
            cure="Start a new run for another kind.",
        )
    if state.base_tree is not None and spec.workspace != before.workspace:
        raise InvalidInput(
            f"workspace: found {spec.workspace}; a fork continues with the files of {run}.",
            cure="Leave `workspace` unchanged, or start a new run.",
        )
    if isinstance(spec, AgentSpec) and isinstance(before, AgentSpec):
        _require_told_once(before, spec)
        _require_files(run, before, state, records)


def _require_told_once(before: AgentSpec, spec: AgentSpec) -> None:
    told = {
        "context": spec.context != before.context,
        "agent.messages": spec.agent.messages != before.agent.messages,
        "agent.transcript": spec.agent.transcript != before.agent.transcript,
    }
    changed = [name for name, differs in told.items() if differs]
    if changed:
        raise InvalidInput(
            f"{', '.join(changed)}: found a change; the fork continues a conversation that "
            "contains them.",
            cure="Say what is new in the goal (--goal), or start a new run.",
        )


def _require_files(
    run: str, before: AgentSpec, state: LoopState, records: tuple[IterationRecord, ...]
) -> None:
    """Refuse a fork that needs files: an agent run keeps its files only when it ends."""
    if before.tools.access == "full" and state.base_tree is None:
        raise NotAllowed(
            f"{run} may write files, and those after iteration {records[-1].index} were not kept: "
            "an agent run keeps them as it ends.",
            cure="Fork from its last iteration, once it has ended.",
        )
