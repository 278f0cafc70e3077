"""What a workflow is started with: one maker per kind of loop, found by the kind's name."""

from collections.abc import Callable

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentInput, AgentState
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import DelegationInput, DelegationState
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import RefineInput, RefineState
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.state import RoleInput, RoleState
from perdure.domain.run.spec import LoopInput, Placement
from perdure.domain.run.state import LoopState
from perdure.domain.specs import Spec

MakeInput = Callable[[Spec, str, Placement, LoopState | None], LoopInput]


def agent_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    """Input of `AgentLoop`."""
    if not isinstance(spec, AgentSpec) or not isinstance(state, AgentState | None):
        raise TypeError(f"an agent loop is started with {_types(spec, state)}")
    return AgentInput(run=run, site=site, spec=spec, state=state)


def refine_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    """Input of `RefineLoop`."""
    if not isinstance(spec, RefineSpec) or not isinstance(state, RefineState | None):
        raise TypeError(f"a refine loop is started with {_types(spec, state)}")
    return RefineInput(run=run, site=site, spec=spec, state=state)


def role_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    """Input of `RoleLoop`."""
    if not isinstance(spec, RolesSpec) or not isinstance(state, RoleState | None):
        raise TypeError(f"a role loop is started with {_types(spec, state)}")
    return RoleInput(run=run, site=site, spec=spec, state=state)


def delegation_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    """Input of `DelegationLoop`."""
    if not isinstance(spec, DelegationSpec) or not isinstance(state, DelegationState | None):
        raise TypeError(f"a delegation loop is started with {_types(spec, state)}")
    return DelegationInput(run=run, site=site, spec=spec, state=state)


LOOP_INPUTS: dict[str, MakeInput] = {
    "agent": agent_input,
    "refine": refine_input,
    "roles": role_input,
    "delegation": delegation_input,
}


def loop_input(spec: Spec, run: str, site: Placement, state: LoopState | None = None) -> LoopInput:
    """The input of the workflow that runs this specification, fresh or from a state.

    Raises:
        InvalidInput: this build has no loop of that kind.
    """
    make = LOOP_INPUTS.get(spec.kind)
    if make is None:
        raise InvalidInput(
            f"kind: found {spec.kind}; runs of this kind cannot be started yet.",
            cure=f"Use one of {', '.join(sorted(LOOP_INPUTS))}.",
        )
    return make(spec, run, site, state)


def _types(spec: Spec, state: LoopState | None) -> str:
    return f"{type(spec).__name__} and {type(state).__name__}"
