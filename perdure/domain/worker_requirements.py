"""What a run needs of its workers: programs, checks of plugins, what its loop requires."""

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.rubric import WorkerRequirements, needs_of
from perdure.domain.roles.definition import required_by
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import Spec, rubric_of

SMOKE_TEST = "delegation.smoke_test"


def worker_requirements(spec: Spec) -> WorkerRequirements:
    """What the rubric, the smoke test and the loop of a specification need."""
    rubric = rubric_of(spec)
    wanted = WorkerRequirements() if rubric is None else needs_of(rubric)
    if isinstance(spec, DelegationSpec) and spec.delegation.smoke_test is not None:
        return wanted.and_program(SMOKE_TEST, spec.delegation.smoke_test)
    if isinstance(spec, RolesSpec) and spec.roles.snapshot is not None:
        return wanted.model_copy(update={"capabilities": required_by(spec.roles.snapshot)})
    return wanted


def only_a_worker_knows(spec: Spec) -> list[str]:
    """What only a worker can check of a specification, in sentences.

    Its key of a provider, its programs and sandbox, its plugins and its MCP servers are its own.
    """
    needs = worker_requirements(spec)
    asked = {
        "may run the programs of": list(needs.programs),
        "has the checks of": list(needs.checks),
        "has the hooks": [hook.name for hook in spec.hooks.wanted.values()],
        "has the MCP servers": [server.name for server in spec.tools.mcp],
        "offers": [
            f"{capability} ({path})"
            for path, capabilities in needs.capabilities.items()
            for capability in capabilities
        ],
        "has what answers for": [name for name in spec.models.chain("executor") if name != "local"],
    }
    told = [f"{what} {', '.join(names)}" for what, names in asked.items() if names]
    return [f"Only a worker can tell whether it {'; '.join(told)}."] if told else []
