"""Steps that lose their worker: retried a few times, then a person decides.

A step that loses several workers in a row (`perdure.domain.foundation.retry_policies` says how
many) may have an input that crashes them. The run then names the step and asks a person. It does
not fail by itself, and other runs keep their workers. What a model call costs that died with its
worker, and how its reply is found again, stands in `perdure.activities.support.journaled_model`.
"""

from collections.abc import Callable
from typing import TypeVar

from temporalio import workflow
from temporalio.types import MethodAsyncSingleParam
from temporalio.workflow import ActivityHandle

from perdure.domain.foundation.retry_policies import LOST_WORKERS, UNHEARD_ROUNDS
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.human_input import HumanInput
from perdure.workflows.engine.model_call_tries import UNREAD_TRIES
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed, StepRunner
from perdure.workflows.engine.working_folder import OPENS_AGAIN, WorkingFolder

R = TypeVar("R")
OwnerT = TypeVar("OwnerT")
RequestT = TypeVar("RequestT")
MOVED = "made anew on another host, from the newest snapshot"
# Patch: what a run owes at its end was lost if its worker was stopped meanwhile.
OWES = "what a run owes at its end outlasts stopped workers"


def is_owed(run: AnyRun, made: int) -> bool:
    """Whether to make a step again that a run waits for in spite of its end, after so many."""
    return run.interruption is None or (made < LOST_WORKERS and workflow.patched(OWES))


class LostWorkerRetries:
    """Schedules a step again after it lost its worker; asks a person if that keeps happening."""

    def __init__(
        self, run: AnyRun, steps: StepRunner, people: HumanInput, folder: WorkingFolder
    ) -> None:
        self.run = run
        self.steps = steps
        self.people = people
        self.folder = folder
        self._unheard: dict[str, int] = {}
        self._unread: dict[str, int] = {}

    async def run_with_retries(
        self, start: Callable[[str], ActivityHandle[R]], *, what: str, patience: float = 0.0
    ) -> Completed[R] | StepFailed:
        """Run a step, and again if it lost its workers and a person wants that.

        Args:
            start: schedules it under an activity id.
            what: names it in the question.
            patience: as for `await_step`.
        """
        made = 0
        while True:
            made += 1
            activity_id = self.run.next_activity_id()
            handle = start(activity_id)
            ended = await self.steps.await_step(handle, activity_id=activity_id, patience=patience)
            if isinstance(ended, Completed) or not ended.may_be_repeated:
                self.forget_losses(what)
                return ended
            if not await self.prepare_retry(ended, what, patience=patience, made=made):
                return ended

    def forget_losses(self, what: str) -> None:
        """Forget how often a step was lost: another one may have its name."""
        self._unheard.pop(what, None)
        self._unread.pop(what, None)

    async def workspace_step(
        self,
        step: MethodAsyncSingleParam[OwnerT, RequestT, R],
        request: Callable[[], RequestT],
        *,
        summary: str,
        in_folder: bool = True,
        patience: float = 0.0,
    ) -> Completed[R] | StepFailed:
        """Run a step on the queue of the workspace, and again as `run_with_retries` says.

        Args:
            step: the activity.
            request: makes its input, anew each time it is scheduled: the folder may have moved.
            summary: names it in Temporal's UI and in the question.
            in_folder: whether it needs the working folder, and so the host that has it.
            patience: as for `await_step`.
        """
        return await self.run_with_retries(
            lambda activity_id: workflow.start_activity_method(
                step,
                request(),
                **activity_options.workspace_step(
                    self.run.site,
                    activity_id=activity_id,
                    summary=summary,
                    host=self.run.state.hosted if in_folder else None,
                ),
            ),
            what=summary,
            patience=patience,
        )

    async def prepare_retry(
        self, lost: StepFailed, what: str, *, patience: float = 0.0, made: int = 1
    ) -> bool:
        """Whether to run a step again that was lost or not taken.

        Always if its worker was stopped on purpose, or the working folder was found again. A few
        times if somebody completed it by hand with what is no report. A step with `patience` was
        `made` so often, and is made again in spite of an interruption.
        """
        if lost.not_taken:
            return await self._folder_found(lost, patience)
        if lost.unreadable:
            self._unread[what] = self._unread.get(what, 0) + 1
            return self._unread[what] < UNREAD_TRIES and self._goes_on(patience, made)
        # A deployment stops workers on purpose. Counting that would let a busy week of releases
        # open a gate.
        if lost.stopped:
            return self._goes_on(patience, made)
        if lost.unheard and self._unheard.get(what, 1) < UNHEARD_ROUNDS:
            self._unheard[what] = self._unheard.get(what, 1) + 1
            return self._goes_on(patience, made)
        self._unheard.pop(what, None)
        return await self.ask_for_retry(what)

    def _goes_on(self, patience: float, made: int) -> bool:
        return is_owed(self.run, made) if patience else self.run.interruption is None

    async def _folder_found(self, lost: StepFailed, patience: float) -> bool:
        """Find out where the working folder is: where it was, or on another host from now on."""
        if lost.homeless or not await self.folder.host_answers():
            moved = await self.run_with_retries(
                self.folder.start_moving, what=OPENS_AGAIN, patience=patience
            )
            if not isinstance(moved, Completed):
                return False
            self.folder.note_moved(moved.report)
            self.run.record_event("workspace_moved", how=MOVED)
        return bool(patience) or self.run.interruption is None

    async def ask_for_retry(self, what: str) -> bool:
        """Ask a person whether to run a step again that lost several workers."""
        shown = self.run.state.step
        gate = self.people.open_gate(
            "blocked",
            f"The step {what!r} lost {LOST_WORKERS} workers in a row: what it is given may break"
            " them. Look at the workers' logs; `retry` makes it again, `end` gives it up.",
            subject=what,
        )
        # A new execution could not take this step up, so do not continue as new before the answer.
        before, self.run.in_one_piece = self.run.in_one_piece, True
        try:
            answered = await self.people.wait_for_answer(gate.id)
        finally:
            self.run.in_one_piece = before
        self.run.set_step(shown)
        answer = None if answered is None else answered.answer
        return answer is not None and answer.choice == "retry"
