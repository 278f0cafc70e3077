"""The workflows of a worker, and the sandbox in which they run."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from perdure.workflows.agent import AgentLoop
from perdure.workflows.delegation import DelegationLoop
from perdure.workflows.learn import LearnLoop
from perdure.workflows.pattern_mining import PatternMining
from perdure.workflows.refine import RefineLoop
from perdure.workflows.roles import RoleLoop

WORKFLOWS = (AgentLoop, RefineLoop, RoleLoop, DelegationLoop, LearnLoop, PatternMining)


def workflow_runner() -> SandboxedWorkflowRunner:
    """The sandbox stays on; our own pure packages pass through, so that types are one."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules("perdure")
    return SandboxedWorkflowRunner(restrictions=restrictions)
