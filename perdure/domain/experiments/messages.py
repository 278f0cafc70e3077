"""What the workflow `Experiment` and its steps tell each other, and how it stands."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Literal

from pydantic import ConfigDict, JsonValue, ValidationError

from perdure.domain.experiments.plan import ExperimentBudget, Plan
from perdure.domain.experiments.store import EndReason
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.base import ActivityMessage, FrozenModel, WorkflowInput
from perdure.domain.foundation.problems import problems_of, render_problems
from perdure.domain.run.spec import Placement


class TrialShape(FrozenModel):
    """What scheduling needs to know of an arm.

    `waits` is how many trials before it stands the one whose spend it may use; `most_usd` and
    `most_tokens` are what one of its runs may spend with its judge, `judge_usd` and `judge_tokens`
    the judge's part, None where that is unlimited.
    """

    waits: int | None = None
    most_usd: Decimal | None = None
    most_tokens: int | None = None
    judge_usd: Decimal | None = None
    judge_tokens: int | None = None

    @property
    def judge(self) -> "TrialShape":
        """What is left to hold once the run has ended, and its judge has not."""
        return TrialShape(most_usd=self.judge_usd, most_tokens=self.judge_tokens)


def shapes_of(plan: Plan) -> tuple[TrialShape, ...]:
    """The facts about the trials of one input that scheduling needs, in order."""
    judge = plan.scoring.judge
    judging = ExperimentBudget() if judge is None else judge.held
    found: list[TrialShape] = []
    for number in range(plan.trials_per_input):
        held, beside = plan.held(plan.arm(plan.position(number).arm)), plan.beside(number)
        found.append(
            TrialShape(
                waits=None if beside is None else number - beside,
                most_usd=held.cost_usd,
                most_tokens=held.tokens,
                judge_usd=judging.cost_usd,
                judge_tokens=judging.tokens,
            )
        )
    return tuple(found)


class Progress(FrozenModel):
    """How far an experiment is; `following` is the first trial that has not begun.

    `unpaid` says that a trial stayed open, because the budget did not pay for all of its runs.
    """

    following: int = 0
    ended: int = 0
    running: tuple[int, ...] = ()
    spent_usd: Decimal = Decimal(0)
    spent_tokens: int = 0
    paused: bool = False
    stopping: Literal["", "graceful", "now"] = ""
    problem: str = ""
    unpaid: bool = False


def progress_of(trials: Sequence[Trial]) -> Progress:
    """Where an execution goes on that begins with these trials kept."""
    done = {trial.number for trial in trials if trial.ended}
    following = next(number for number in count() if number not in done)
    runs = [one for trial in trials for one in trial.tries]
    return Progress(
        following=following,
        # Trials behind the first open one may have ended: they are asked for again, and say so.
        ended=following,
        # Known costs beside unknown ones too: the budget counted them before.
        spent_usd=sum((one.least_usd for one in runs), Decimal(0)),
        spent_tokens=sum(one.spent_tokens for one in runs),
    )


def fits(
    budget: ExperimentBudget, held: Collection[TrialShape], spent: Progress, *, newest: TrialShape
) -> bool:
    """Whether a budget pays for all that is held for runs, the newest among them.

    A run without a limit of its own fits while anything is left.
    """
    usd = sum((one.most_usd or Decimal(0) for one in held), spent.spent_usd)
    tokens = sum(one.most_tokens or 0 for one in held) + spent.spent_tokens
    return _within(usd, budget.cost_usd, unlimited=newest.most_usd is None) and _within(
        tokens, budget.tokens, unlimited=newest.most_tokens is None
    )


def _within(held: Decimal | int, limit: Decimal | int | None, *, unlimited: bool) -> bool:
    # Zero means unlimited, as None does.
    if not limit:
        return True
    return held < limit if unlimited else held <= limit


class ExperimentInput(WorkflowInput):
    """Input of `Experiment`: the plan stands in the store, here is what decides what starts next.

    `per_input` are the trials of one input in order, `trials` how many there are in all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    site: Placement
    per_input: tuple[TrialShape, ...]
    trials: int
    parallel: int = 4
    budget: ExperimentBudget = ExperimentBudget()
    progress: Progress = Progress()

    @property
    def belongs_to(self) -> str:
        return self.id


class Resumption(ExperimentBudget):
    """What the signal `resume` may say: limits in place of those before, and how many trials."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    trials: int = 0

    @classmethod
    def of(cls, given: object) -> "Resumption | str":
        """What anybody may have sent, or what is wrong with it."""
        try:
            return cls.model_validate({} if given is None else given)
        except ValidationError as error:
            return render_problems(problems_of(error, given))


def stop_mode(given: Sequence[object]) -> Literal["graceful", "now"]:
    """How to stop: `now` by itself, or as a field `mode`, as the loops take it."""
    modes = [one.get("mode") if isinstance(one, Mapping) else one for one in given]
    return "now" if "now" in modes else "graceful"


# Histories leave out what is a default here, in this message and those below: another default would
# change what they say.
class StoredSpend(ActivityMessage):
    """What all kept runs of an experiment spent; `usd` is None where a price is unknown.

    `following` is the first trial that has not ended, and `trials` how many its inputs make, where
    that was looked up.
    """

    usd: Decimal | None
    tokens: int
    following: int | None = None
    trials: int | None = None

    def known(self, before: Progress) -> Progress:
        """The progress with at least this spend: what is in the store was spent."""
        usd = before.spent_usd if self.usd is None else max(before.spent_usd, self.usd)
        tokens = max(before.spent_tokens, self.tokens)
        return before.model_copy(update={"spent_usd": usd, "spent_tokens": tokens})


class OpenTrialRequest(ActivityMessage):
    """Open the next run of a trial, if it needs one more."""

    experiment: str
    number: int


class OpenTrialReport(ActivityMessage):
    """A run to start, or none: the trial has ended, or its run did.

    With `run` and no `kind` the run is there already, and has ended.
    """

    run: str | None = None
    kind: str = ""
    input: dict[str, JsonValue] | None = None
    queue: str = ""
    memo: dict[str, str] = {}


class SettleTrialRequest(ActivityMessage):
    """Keep how a run of a trial ended; `judge` is the run that judged it, once there is one."""

    experiment: str
    number: int
    run: str
    judge: str | None = None


class SettleTrialReport(ActivityMessage):
    """What the run spent, whether another try follows, and the run of a judge to start first.

    `cost_usd` is the least that it cost, without calls whose price is unknown. `whole` is what the
    store knows of the whole experiment, this run included.
    """

    cost_usd: Decimal | None = Decimal(0)
    tokens: int = 0
    more: bool = False
    judge: OpenTrialReport | None = None
    whole: StoredSpend | None = None


def spent_with(before: Progress, run: SettleTrialReport) -> Progress:
    """The progress after a run; the store's figure holds it, those beside it, and older ones."""
    usd = before.spent_usd + (run.cost_usd or Decimal(0))
    # A report of an older version, in a history that is replayed.
    if run.whole is None:
        tokens = before.spent_tokens + run.tokens
        return before.model_copy(update={"spent_usd": usd, "spent_tokens": tokens})
    known = run.whole.known(before)
    # A price that is unknown hides the store's costs, and never its tokens.
    return known if run.whole.usd is not None else known.model_copy(update={"spent_usd": usd})


class NoteExperimentRequest(ActivityMessage):
    """Keep how an experiment stands; with `counts`, say how many trials its inputs make."""

    experiment: str
    state: Literal["running", "paused", "ended"]
    reason: EndReason = ""
    counts: bool = False


class ExperimentEnded(FrozenModel):
    """How an experiment ended, as its workflow returns it."""

    id: str
    reason: EndReason
    trials: int
    spent_usd: Decimal = Decimal(0)
    spent_tokens: int = 0
