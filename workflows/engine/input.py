"""The input of a workflow: one readable object, or the run fails at once and says why.

Left to itself, the SDK would retry the task of a workflow with unreadable input for ever, and
people would only see a run that never begins. After continue-as-new it is different: the run is
sound and only this worker cannot read it, so the task waits for a worker that can.
"""

from typing import TYPE_CHECKING, ClassVar, Self

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.domain.foundation.base import WorkflowInput
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.spec import LoopInput

INVALID_INPUT = "invalid_input"


class Given:
    """Checks the input before the workflow object is built."""

    wanted: ClassVar[str] = (
        "Start runs with `perdure run`, REST or `perdure.Client`, which build the input."
    )

    # In `__new__`, because the SDK calls `@workflow.init` with the decoded input at once:
    # `__init__` would fail with an error about attributes instead of one that people can act on.
    if not TYPE_CHECKING:  # a type checker keeps to the one signature of each `__init__`

        def __new__(cls, *given: object) -> Self:
            """Make a workflow of one readable input.

            Raises:
                ApplicationError: there is none, more than one, it cannot be read, or it belongs
                    to another run.
                ValueError: an execution that goes on cannot be read by this worker.
            """
            if len(given) != 1:
                raise _refused(cls.wanted, f"it takes one object, {len(given)} values came")
            if isinstance(given[0], Misread):
                # A ValueError fails the task, not the run: the server offers it again until a
                # worker can read it. An ApplicationError here would end a sound run because of an
                # old worker.
                if workflow.info().continued_run_id is not None:
                    raise ValueError(f"this worker cannot read how the run stands: {given[0].why}")
                raise _refused(cls.wanted, given[0].why)
            if isinstance(given[0], WorkflowInput):
                _require_own(given[0], cls.wanted)
            return super().__new__(cls)


def _require_own(given: WorkflowInput, wanted: str) -> None:
    """Refuse an input that was copied from another execution.

    Steps write under the name in the input: the records of the other run would be replaced, and its
    spend forgotten.
    """
    info = workflow.info()
    if given.belongs_to not in {None, info.workflow_id}:
        raise _refused(wanted, f"it is the input of {given.belongs_to}")
    if not isinstance(given, LoopInput) or given.chain is None:
        return
    if given.chain != info.first_execution_run_id:
        raise _refused(wanted, f"it is from the middle of an earlier execution of {given.run}")


def _refused(wanted: str, why: str) -> ApplicationError:
    kind = workflow.info().workflow_type
    return ApplicationError(
        f"The input of {kind} cannot be read: {why}. {wanted}",
        type=INVALID_INPUT,
        non_retryable=True,
    )
