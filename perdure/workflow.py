"""Loops as children of your own workflow.

    from perdure.workflow import LoopFailed, refine

    result = await refine("Write the confirmation mail.", rubric=RUBRIC, id=f"mail-{order.id}")

The fields are those of a task file. Everything here is deterministic and belongs into workflow
code; `perdure.Client` is for everything else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import nullcontext, suppress
from functools import partial

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import to_jsonable_python
from temporalio import workflow
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import (
    ChildWorkflowCancellationType,
    ChildWorkflowHandle,
)

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import WORKFLOW_TYPES, LoopKind
from perdure.domain.foundation.problems import escaped
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.run.child_questions import OpenGate
from perdure.domain.run.result import RunResult
from perdure.embedding.child_gates import OnGate, Reply, gates_of_children
from perdure.embedding.child_options import INVALID_TASK, Child, attributes_of, id_below, memo_of
from perdure.embedding.whole_results import whole_result
from perdure.submission.validation import validated

__all__ = [
    "Child", "LoopCancelled", "LoopFailed", "OnGate", "OpenGate", "Reply", "agent", "delegate",
    "refine", "roles", "whole_result",
]  # fmt: skip
RUN_FAILED = "RunFailed"
SUMMARY_CHARACTERS = 200
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 900.0


class LoopFailed(ApplicationError):
    """A loop ended as `failed` or `blocked`; `result` is all that it has to show.

    It fails the workflow that does not catch it.
    """

    def __init__(self, result: RunResult) -> None:
        words = f"{result.outcome}/{result.reason}: {result.explanation}"
        super().__init__(words, result.model_dump(mode="json"), type=RUN_FAILED, non_retryable=True)
        self.result = result


class LoopCancelled(Exception):
    """Why a wait for a loop was cancelled; `result` is what the loop had to show when it stopped.

    It is the cause of the `asyncio.CancelledError` that `agent` and the others raise, which is no
    subclass: `asyncio.timeout` and `asyncio.TaskGroup` know only the very class, up to Python 3.12.
    """

    def __init__(self, run: str, result: RunResult | None) -> None:
        shown = f"it ended as {result.outcome}/{result.reason}" if result else "it has no result"
        super().__init__(f"The wait for the loop {run} was cancelled; {shown}.")
        self.result = result

    @classmethod
    def result_of(cls, error: BaseException) -> RunResult | None:
        """The best result of the loop that a cancellation or a timeout has stopped.

        Args:
            error: an `asyncio.CancelledError`, or the `TimeoutError` that was made of it.

        Returns:
            None if no loop was awaited, or it had not started.
        """
        at: BaseException | None = error
        seen: set[int] = set()
        while at is not None and id(at) not in seen:
            if isinstance(at, cls):
                return at.result
            seen.add(id(at))
            at = at.__cause__ or at.__context__
        return None


AS_USUAL = Child()
Handle = ChildWorkflowHandle[object, JsonValue]


async def agent(
    goal: str,
    *,
    id: str | None = None,
    child: Child = AS_USUAL,
    on_gate: OnGate | None = None,
    **fields: object,
) -> RunResult:
    """Run a model with tools until it answers in text.

    Cancelling this workflow or the wait (a timeout, say) stops the loop and waits for its end.

    Args:
        goal: what it is to do.
        id: the run's id; None makes one of this workflow's id, the same on every replay. While a
            loop with this id runs, its end is awaited; the same task then returns its result.
        child: where and how it runs.
        on_gate: answers its open gates, in this workflow; what it leaves open is for people, and so
            is what was open before this call joined a running loop, until another gate opens.
        fields: further fields of the task, as JSON or as models of Perdure.

    Returns:
        The result, with the best output.

    Raises:
        LoopFailed: it ended as `failed` or `blocked`.
        asyncio.CancelledError: the wait was cancelled and the loop has ended; its cause is a
            `LoopCancelled`, and `LoopCancelled.result_of` gives the best result.
        ApplicationError: the task, or what `child` says, cannot be run; nothing was started (type
            `invalid_task`).
    """
    return await _run("agent", goal, fields, id=id, child=child, on_gate=on_gate)


async def refine(
    goal: str,
    *,
    id: str | None = None,
    child: Child = AS_USUAL,
    on_gate: OnGate | None = None,
    **fields: object,
) -> RunResult:
    """Improve a draft until its rubric is satisfied; arguments and errors are those of `agent`."""
    return await _run("refine", goal, fields, id=id, child=child, on_gate=on_gate)


async def roles(
    goal: str,
    *,
    id: str | None = None,
    child: Child = AS_USUAL,
    on_gate: OnGate | None = None,
    **fields: object,
) -> RunResult:
    """Let a team of roles work until it approves; arguments and errors are those of `agent`."""
    return await _run("roles", goal, fields, id=id, child=child, on_gate=on_gate)


async def delegate(
    goal: str,
    *,
    id: str | None = None,
    child: Child = AS_USUAL,
    on_gate: OnGate | None = None,
    **fields: object,
) -> RunResult:
    """Let a manager delegate to workers; arguments and errors are those of `agent`."""
    return await _run("delegation", goal, fields, id=id, child=child, on_gate=on_gate)


async def _run(
    kind: LoopKind,
    goal: str,
    fields: Mapping[str, object],
    *,
    id: str | None,
    child: Child,
    on_gate: OnGate | None,
) -> RunResult:
    task = _checked(kind, {"goal": goal, **fields})
    memo, attributes = memo_of(child, answered=on_gate is not None), attributes_of(child)
    suffix = f"-{kind}-{workflow.uuid4().hex[:8]}"  # drawn for each loop, as histories have it
    run = id or id_below(suffix)
    answered = nullcontext() if on_gate is None else gates_of_children().answered(run, on_gate)

    def start() -> Awaitable[Handle]:
        # By name and as JSON, whatever data converter the worker's client has.
        return workflow.start_child_workflow(
            WORKFLOW_TYPES[kind],
            task,
            id=run,
            task_queue=child.task_queue,
            parent_close_policy=child.parent_close_policy,
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            memo=memo,
            search_attributes=attributes,
            static_summary=f"{kind}: {' '.join(goal.split())}"[:SUMMARY_CHARACTERS],
        )

    with answered:
        return await _result(run, start)


class _Noticing:
    """Awaits the start of a loop, and notices cancellations, which the SDK may keep to itself."""

    def __init__(self, starting: Awaitable[Handle]) -> None:
        self._starting = starting
        self.cancelled = False

    # Not as a task of its own: that would start the loop a moment later, after commands that stand
    # behind it in histories.
    def __await__(self) -> Generator[object, None, Handle]:
        steps = self._starting.__await__()
        advance = partial(next, steps)
        while True:
            try:
                awaited = advance()
            except StopIteration as started:
                return started.value
            try:
                yield awaited
                advance = partial(next, steps)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                self.cancelled |= isinstance(error, asyncio.CancelledError)
                advance = partial(steps.throw, error)


async def _result(run: str, start: Callable[[], Awaitable[Handle]]) -> RunResult:
    """The result of a loop; a cancellation is raised only when the loop has ended."""
    result = None
    cancelled = False
    try:
        loop, cancelled = await _start_loop(run, start)
        cancelled |= await _wait_for_end(loop, cancelled)
        result = read_value(RunResult, loop.result())
    except ChildWorkflowError as error:
        failed = _failed(error)
        if not cancelled:
            raise failed from error
        result = failed.result if isinstance(failed, LoopFailed) else None
    except asyncio.CancelledError as error:  # before the loop was there
        raise asyncio.CancelledError(*error.args) from LoopCancelled(run, None)
    if cancelled or result is None:
        cause = LoopCancelled(run, result)
        raise asyncio.CancelledError(str(cause)) from cause
    return result


async def _start_loop(run: str, start: Callable[[], Awaitable[Handle]]) -> tuple[Handle, bool]:
    """Start a loop; while another one has its id, try again until it has ended.

    A loop that then starts from the same task returns the result of the other one at once.

    Returns:
        The loop, and whether the wait for it was cancelled meanwhile.
    """
    since = workflow.time()
    while True:
        starting = _Noticing(start())
        try:
            return await starting, starting.cancelled
        except ChildWorkflowError as error:
            if starting.cancelled:
                raise asyncio.CancelledError(str(error)) from error
            raise
        except WorkflowAlreadyStartedError as error:
            if run == workflow.info().workflow_id:
                raise _own_id(run) from error
            if starting.cancelled:
                raise asyncio.CancelledError(str(error)) from error
        waited = workflow.time() - since
        # Each try adds events to the history, so the longer the wait, the fewer they are.
        pause = min(max(waited / 10, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        await workflow.sleep(pause, summary=f"{run} runs already; wait for its end")


def _own_id(run: str) -> ApplicationError:
    return ApplicationError(
        f"id: {run!r} is the id of the workflow that awaits the loop. Give the loop another one.",
        type=INVALID_TASK,
        non_retryable=True,
    )


async def _wait_for_end(loop: Handle, cancelled: bool) -> bool:
    """Wait for the end of a loop; a cancellation is passed on to it, and the wait goes on.

    Returns:
        Whether the wait was cancelled.
    """
    if cancelled:
        await _stop(loop.id)
    while True:
        try:
            with suppress(ChildWorkflowError):  # its `result` raises it again
                await asyncio.shield(loop)
            return cancelled
        except asyncio.CancelledError:
            cancelled = True
            if loop.done():
                return cancelled
            await _stop(loop.id)


async def _stop(run: str) -> None:
    # Cancelling the handle would reach only the execution that was started, but a loop continues
    # as new as soon as its task is opened.
    # Suppressed: the loop has just ended, or the wait is cancelled again after the request left.
    with suppress(FailureError, asyncio.CancelledError):
        await workflow.get_external_workflow_handle(run).cancel()


def _failed(error: ChildWorkflowError) -> ApplicationError | ChildWorkflowError:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == RUN_FAILED and cause.details:
        try:
            # Read with tolerance: the loop may have run on workers of a newer version.
            return LoopFailed(read_value(RunResult, cause.details[0]))
        except ValidationError:  # of a version that has another form of it
            return error
    return error


def _checked(kind: LoopKind, fields: Mapping[str, object]) -> dict[str, JsonValue]:
    """The fields as JSON; what only a worker can check is checked when the run is opened."""
    try:
        task: dict[str, JsonValue] = {name: _as_json(value) for name, value in fields.items()}
        validated({**task, "kind": kind})
    except (InvalidInput, ValueError) as error:
        # From none: with half a character in its words, a cause cannot be sent either.
        said = escaped(str(error))
        raise ApplicationError(said, type=INVALID_TASK, non_retryable=True) from None
    return task


def _as_json(value: object) -> JsonValue:
    """A value as in task files; of a model, only the fields that were set."""
    match value:
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        case list() | tuple():
            return [_as_json(one) for one in value]
        case _:
            return to_jsonable_python(value)
