"""The engine of a run: the parts that all loops share, wired together."""

from perdure.workflows.engine.calls_beside import CallsBeside
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.control import Control
from perdure.workflows.engine.fitting import CallBounds, Fitting
from perdure.workflows.engine.hooks import HookSteps
from perdure.workflows.engine.human_input import HumanInput
from perdure.workflows.engine.lifecycle import Lifecycle
from perdure.workflows.engine.limit_questions import LimitQuestions
from perdure.workflows.engine.lost_worker_retries import LostWorkerRetries
from perdure.workflows.engine.model_caller import ModelCaller
from perdure.workflows.engine.policies import ModelSelection, Requirements
from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.setup import Setup
from perdure.workflows.engine.snapshots import Snapshots
from perdure.workflows.engine.step_runner import StepRunner
from perdure.workflows.engine.stored_terms import StoredTerms
from perdure.workflows.engine.working_folder import WorkingFolder


class Engine:
    """Built once in each execution of a run.

    Args:
        run: the run, shared by all parts.
        selection: which models play which role; None takes those of the task.
        requirements: what this kind of loop needs of its worker; None needs nothing.
        bounds: what part of the budget a call must leave untouched; None for none.
    """

    def __init__(
        self,
        run: AnyRun,
        *,
        selection: ModelSelection[AnyRun] | None = None,
        requirements: Requirements | None = None,
        bounds: CallBounds | None = None,
    ) -> None:
        # The order below is the order of dependencies: each part is given only parts above it, so
        # none can call back up. What differs between loops comes in as an argument, not as an
        # override.
        self.run = run
        self.selection = selection or ModelSelection(run)
        self.terms = StoredTerms(run)
        self.control = Control(run, self.terms)
        self.resets = Resets(run, self.terms)
        self.rolling = ContinueAsNew(run, self.terms, self.resets)
        self.steps = StepRunner(run, self.resets)
        self.people = HumanInput(run, self.steps, self.rolling)
        requirements = requirements or Requirements()
        self.folder = WorkingFolder(run, requirements)
        self.retries = LostWorkerRetries(run, self.steps, self.people, self.folder)
        self.limits = LimitQuestions(run, self.people)
        self.fitting = Fitting(run, self.selection, bounds)
        self.models = ModelCaller(
            run,
            steps=self.steps,
            retries=self.retries,
            limits=self.limits,
            selection=self.selection,
            fitting=self.fitting,
            beside=CallsBeside(run),
        )
        self.snapshots = Snapshots(run, self.retries)
        self.setup = Setup(
            run,
            steps=self.steps,
            retries=self.retries,
            folder=self.folder,
            selection=self.selection,
            requirements=requirements,
        )
        self.hooks = HookSteps(run, self.steps, self.rolling)
        self.life = Lifecycle(
            run,
            resets=self.resets,
            rolling=self.rolling,
            terms=self.terms,
            questions=self.control.questions,
            hooks=self.hooks,
        )
