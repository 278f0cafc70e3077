"""The workflows of a worker, what runs them, and how long one task may take."""

from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.domain.foundation.base import build_validators
from perdure.workflows.agent import AgentLoop
from perdure.workflows.delegation import DelegationLoop
from perdure.workflows.experiment import Experiment
from perdure.workflows.learn import LearnLoop
from perdure.workflows.refine import RefineLoop
from perdure.workflows.roles import RoleLoop
from perdure.workflows.task_start import TASK_STARTS
from perdure.workflows.upkeep import Collection, PatternMining

__all__ = ["TASK_STARTS", "WORKFLOWS", "allow_long_tasks", "workflow_runner"]
WORKFLOWS = (
    AgentLoop,
    RefineLoop,
    RoleLoop,
    DelegationLoop,
    LearnLoop,
    PatternMining,
    Experiment,
    Collection,
)


def workflow_runner() -> UnsandboxedWorkflowRunner:
    """What runs our workflows: the SDK without its sandbox.

    All our modules would have to pass through the sandbox, or types would not match, and it guards
    nothing in modules that pass. It enters for each payload six times, a sixth of a turn's work.
    Tests keep clocks, randomness and I/O out of workflows and the domain instead.
    """
    build_validators()
    return UnsandboxedWorkflowRunner()


TASK_S = 8  # below the ten seconds after which the server gives a task to another worker


def allow_long_tasks(worker: Worker) -> None:
    """Raise the SDK's limit of two seconds for a workflow task, as the server allows ten.

    Ten thousand signals that waited for a worker come in one task. They take the SDK 0.8 s on an
    idle core. On a busy one, the SDK would report a deadlock at every attempt.
    """
    inner = worker._workflow_worker  # pyright: ignore[reportPrivateUsage]
    if inner is not None and inner._deadlock_timeout_seconds is not None:  # pyright: ignore[reportPrivateUsage]
        inner._deadlock_timeout_seconds = TASK_S  # pyright: ignore[reportPrivateUsage]
