"""What the server knows of a run without asking any worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.gateway.diagnostics import listed_trouble
from perdure.gateway.dispatch import Unfetched
from perdure.gateway.run_problem import RunProblem

KINDS_BY_TYPE = {workflow: kind for kind, workflow in WORKFLOW_TYPES.items()}
SEALED_GOAL = "(sealed with a key or a codec that is not set here)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInfo:
    """One execution, as the server describes or lists it.

    `ending` is how the execution closed, in the server's words (`completed`, `failed`,
    `terminated`, `canceled`, `timed_out`), or None while it is open. `trouble` is what keeps it
    from moving; in a list it is incomplete. `unfetched` is a task that no worker has fetched, and
    `task_pending` says whether a workflow task is due; lists have neither. `begins_at` is when its
    first task is due, which is after its start where somebody asked for a delay.
    """

    id: str
    execution: str
    kind: str
    ending: str | None
    history_length: int
    started_at: datetime
    closed_at: datetime | None
    facts: Mapping[str, str | int | float]
    memo: Mapping[str, str]
    queue: str = ""
    parent: str | None = None
    trouble: RunProblem | None = None
    unfetched: Unfetched | None = None
    task_pending: bool = False
    begins_at: datetime | None = None

    @property
    def open(self) -> bool:
        return self.ending is None

    def text(self, name: str) -> str | None:
        """A search attribute as text."""
        value = self.facts.get(name)
        return None if value is None else str(value)

    def number(self, name: str) -> float | None:
        """A search attribute as a number."""
        value = self.facts.get(name)
        return float(value) if isinstance(value, int | float) else None


async def info_of(execution: WorkflowExecution) -> ExecutionInfo:
    """What the server says of an execution, as far as a list has it."""
    memo, ending = await _memo(execution), _ending(execution.status)
    facts: dict[str, str | int | float] = {}
    for pair in execution.typed_search_attributes:
        if isinstance(pair.value, str | int | float):
            facts[pair.key.name] = pair.value
    return ExecutionInfo(
        id=execution.id,
        execution=execution.run_id,
        kind=KINDS_BY_TYPE.get(execution.workflow_type, execution.workflow_type),
        ending=ending,
        history_length=execution.history_length,
        started_at=execution.start_time,
        closed_at=execution.close_time,
        facts=facts,
        memo={name: value for name, value in memo.items() if isinstance(value, str)},
        queue=execution.task_queue,
        parent=execution.parent_id,
        trouble=None if ending else listed_trouble(execution),
        begins_at=execution.execution_time,
    )


async def _memo(execution: WorkflowExecution) -> Mapping[str, object]:
    """The memo of a run, perhaps a client's own; a value that cannot be read hides no other one."""
    found: dict[str, object] = {}
    for name in execution.raw_info.memo.fields:
        try:
            found[name] = await execution.memo_value(name)
        except (KeyError, PerdureError):
            if name == "goal":
                found[name] = SEALED_GOAL
    return found


def _ending(status: WorkflowExecutionStatus | None) -> str | None:
    if status is None or status == WorkflowExecutionStatus.RUNNING:
        return None
    return status.name.lower()
