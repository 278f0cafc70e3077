"""What a workflow is started with: one object that it can read, or it fails at once, in words.

The SDK fails the task of a workflow whose input does not fit, and tries it again for ever: nobody
sees more than a run that does not begin. An input that goes on from an earlier execution is another
matter: the run was sound, this worker cannot read it, and the task waits for one that can.
"""

from typing import TYPE_CHECKING, Self

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.domain.run.message_forms import Misread

TYPE = "invalid_input"


class Given:
    """Looks at the input before anything of the workflow exists; also the base of `Loop`."""

    if not TYPE_CHECKING:  # a type checker keeps to the one signature of each `__init__`

        def __new__(cls, *given: object) -> Self:
            """Make a workflow of one readable input.

            Raises:
                ApplicationError: there is none, more than one, or it cannot be read.
                ValueError: an execution that goes on cannot be read by this worker.
            """
            if len(given) != 1:
                raise _refused(f"it takes one object, {len(given)} values came")
            if isinstance(given[0], Misread):
                if workflow.info().continued_run_id is not None:
                    raise ValueError(f"this worker cannot read how the run stands: {given[0].why}")
                raise _refused(given[0].why)
            return super().__new__(cls)


def _refused(why: str) -> ApplicationError:
    kind = workflow.info().workflow_type
    return ApplicationError(
        f"The input of {kind} cannot be read: {why}. Start runs with `perdure run`, over REST or"
        " with `perdure.Client`, which make it.",
        type=TYPE,
        non_retryable=True,
    )
