"""A run that any Temporal client started with nothing but its task, until it is opened.

The task is the JSON of a task file. Opening it takes stores and models, so an activity does it; the
workflow then continues as new on the queue of its installation, with the input that an interface
would have made.
"""

from pydantic import JsonValue, model_validator

from perdure.domain.foundation.base import ActivityMessage, WorkflowInput
from perdure.domain.run.messages import AddInput, Pause, Resume, Stop

NO_GOAL = "(the task has not been read yet)"
GOAL_CHARACTERS = 2_000
# Messages that make sense for any task; others are about a budget, rubric or gate not known yet.
TAKEN_BEFORE = (Pause, Resume, Stop, AddInput)
OPENING = (
    "the run is being opened and its task is not read yet, so only pause, resume, stop and "
    "add_input are taken; send it again in a moment"
)


class TaskInput(WorkflowInput):
    """Whatever a client sent as the task; opening it says what is wrong with it."""

    task: JsonValue

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, value: JsonValue) -> dict[str, JsonValue]:
        # Also an object with a field `task` of its own: that field is unknown, and is told as such.
        return {"task": value}

    @property
    def goal(self) -> str:
        """The goal as people see it meanwhile."""
        said = self.task.get("goal") if isinstance(self.task, dict) else None
        return said[:GOAL_CHARACTERS] if isinstance(said, str) and said.strip() else NO_GOAL


class OpenTaskRequest(ActivityMessage):
    """Read a task, write the run's row, and find where it will live.

    `chain` is the first execution of the run, whose id is that of the workflow: a repeat of this
    step, and a reset, find the row that it wrote. `schedule` is the id of the Temporal schedule
    that started it, if one did.
    """

    kind: str
    task: JsonValue
    chain: str
    schedule: str = ""


class OpenTaskReport(ActivityMessage):
    """The input to go on with, the queue that takes it, and the memo that lists show.

    `tenant` is how the server is to know whose run it is, empty for one of nobody.
    Where there is nothing to run, `result` is how it ended: the task was refused, or the same task
    ran under this id before.
    """

    input: dict[str, JsonValue] | None = None
    queue: str = ""
    memo: dict[str, str] = {}
    tenant: str = ""
    result: str | None = None
