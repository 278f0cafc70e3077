"""What an experiment is to run: a task in several arms, over many inputs, and how it is scored.

Every combination of an input, a repeat and an arm is one *trial*. Trials are numbered input by
input, so that all arms of an input run close to each other and inputs can be added at the end.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, TypeVar

from pydantic import Field, JsonValue

from perdure.domain.budget.accounting import Count, Money
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.base import FrozenModel

MOST_ARMS = 12
MOST_REPEATS = 100
MOST_PARALLEL = 64
MOST_TRIES = 1_000
MOST_INPUTS = 100_000
INPUT = "input"
"""The name under which a task sees an input that is a text without a name."""

Fields = dict[str, JsonValue]
Spend = Literal["same_tokens", "same_calls"]
Limit = TypeVar("Limit", int, Decimal)


class Tries(FrozenModel):
    """How often an arm tries independently: a number, or for what another arm spent."""

    count: int | None = Field(default=None, ge=1, le=MOST_TRIES)
    spend: Spend | None = None
    of: str | None = None

    @property
    def in_words(self) -> str:
        """What a table says beside the arm's name."""
        if self.spend is None:
            return f"best of {self.count}"
        return f"best of n for the {self.spend.removeprefix('same_')} of {self.of}"


class Arm(FrozenModel):
    """One way of working: a whole task, and whether the best of several tries counts.

    `task` holds all fields of a specification without the input's, `own` again those that the arm
    changes, whatever an input sets. `most_usd` and `most_tokens` are what one run of it may spend
    at most over any input, where that is limited.
    """

    name: str
    task: Fields
    own: Fields = {}
    tries: Tries | None = None
    most_usd: Decimal | None = None
    most_tokens: int | None = None

    @property
    def counts_cache_reads(self) -> bool:
        """Whether its runs count what a model read from its cache against their tokens."""
        budget = self.task.get("budget")
        return isinstance(budget, dict) and budget.get("count_cache_reads") is True


class ExperimentBudget(FrozenModel):
    """What all runs of an experiment may spend together; None means unlimited."""

    cost_usd: Money | None = None
    tokens: Count | None = None

    def over(self, other: "ExperimentBudget") -> "ExperimentBudget":
        """These limits, and those of another where none is given here."""
        given = self.model_dump(include={"cost_usd", "tokens"}, exclude_none=True)
        return other.model_copy(update=given)


JUDGE_BUDGET = ExperimentBudget(cost_usd=Decimal("0.25"), tokens=100_000)


class JudgeScore(FrozenModel):
    """A judge that no loop sees: what it looks for, the model, and the limits of each of its runs.

    `most_usd` is what one of them may cost, where that is limited: the limit, or less by prices.
    """

    criteria: str = Field(min_length=1)
    model: str = Field(min_length=1)
    budget: ExperimentBudget = JUDGE_BUDGET
    most_usd: Decimal | None = JUDGE_BUDGET.cost_usd

    @property
    def held(self) -> ExperimentBudget:
        """What is set aside for one of its runs; None where that is unlimited."""
        # Zero tokens mean unlimited too.
        return ExperimentBudget(cost_usd=self.most_usd, tokens=self.budget.tokens or None)


class Scoring(FrozenModel):
    """Where scores come from: the loop's own rubric, or one of three that no loop sees.

    `passes` is the score from which an output counts as passed; for the loop's own rubric it is
    what the loop itself calls good enough.
    """

    by: Literal["rubric", "check", "judge", "labels"] = "rubric"
    rubric: Rubric | None = None
    judge: JudgeScore | None = None
    passes: float = Field(default=1.0, gt=0, le=1)

    @property
    def held_out(self) -> bool:
        """Whether the loops do not see it."""
        return self.by != "rubric"


class Plan(FrozenModel):
    """An experiment without its inputs, which stand in rows of their own."""

    name: str
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=MOST_ARMS)
    repeats: int = Field(default=1, ge=1, le=MOST_REPEATS)
    parallel: int = Field(default=4, ge=1, le=MOST_PARALLEL)
    scoring: Scoring = Scoring()
    budget: ExperimentBudget = ExperimentBudget()

    @property
    def trials_per_input(self) -> int:
        """How many trials each input makes."""
        return self.repeats * len(self.arms)

    def position(self, number: int) -> "Position":
        """Which trial a number is; the first is 0."""
        entry, rest = divmod(number, self.trials_per_input)
        repeat, arm = divmod(rest, len(self.arms))
        return Position(entry, repeat, self.arms[arm].name)

    def arm(self, name: str) -> Arm:
        """An arm by its name; raises `KeyError` for an unknown one."""
        return next(arm for arm in self.arms if arm.name == name)

    def held(self, arm: Arm) -> ExperimentBudget:
        """What is set aside for one run of an arm with its judge; None where that is unlimited."""
        limits = [ExperimentBudget(cost_usd=arm.most_usd, tokens=arm.most_tokens)]
        if self.scoring.judge is not None:
            limits.append(self.scoring.judge.held)
        usd, tokens = [one.cost_usd for one in limits], [one.tokens for one in limits]
        return ExperimentBudget(
            # One part without a limit makes the sum unlimited: as zero it would hold nothing back.
            cost_usd=None if None in usd else sum(filter(None, usd), Decimal(0)),
            tokens=None if None in tokens else sum(filter(None, tokens)),
        )

    def beside(self, number: int) -> int | None:
        """The trial of the same input and repeat whose spend this one may use; None for none."""
        arm = self.arm(self.position(number).arm)
        if arm.tries is None or arm.tries.of is None:
            return None
        names = [one.name for one in self.arms]
        return number - names.index(arm.name) + names.index(arm.tries.of)


class Position(NamedTuple):
    """A trial: the input and the repeat, both from 0, and the arm."""

    entry: int
    repeat: int
    arm: str


class Entry(FrozenModel):
    """One input: what it is called, what it changes of the task, and the right answer if known.

    `context` goes to the task's named inputs, `fields` over its other fields.
    """

    name: str
    goal: str | None = None
    context: Fields = {}
    fields: Fields = {}
    expected: JsonValue = None

    @property
    def named_inputs(self) -> Fields:
        """Its named inputs: a null is empty here and missing in a task, so that has a text."""
        return {name: "" if value is None else value for name, value in self.context.items()}


def differing(entries: Iterable[Entry]) -> list[Entry]:
    """The first of the inputs that set the same fields of the task, for each such group."""
    found: dict[str, Entry] = {}
    for entry in entries:
        found.setdefault(json.dumps(entry.fields, sort_keys=True), entry)
    return list(found.values())


def trial_task(arm: Arm, entry: Entry, *, label: str) -> Fields:
    """The whole task of one run: the arm's, with the input in it, labelled by its experiment."""
    # The arm last: an input that undid what it changes would compare two arms that are the same.
    task = over(over(arm.task, entry.fields), arm.own)
    if entry.goal is not None:
        task["goal"] = entry.goal
    if entry.context:
        given = task.get("context")
        own = given if isinstance(given, dict) else {}
        task["context"] = {**own, **entry.named_inputs}
    # The label comes last, whatever the task says: lists find the runs of an experiment by it.
    told = task.get("metadata")
    task["metadata"] = {**(told if isinstance(told, dict) else {}), "label": label}
    return task


def over(low: Fields, high: Fields) -> Fields:
    """Blocks of fields merged one by one; everything else of `high` replaces what is below it."""
    whole = dict(low)
    for name, value in high.items():
        below = whole.get(name)
        both = isinstance(below, dict) and isinstance(value, dict)
        whole[name] = over(below, value) if both else value  # type: ignore[arg-type]
    return whole


def highest(limits: Iterable[Limit | None]) -> Limit | None:
    """The highest of some limits; None where one of them is none."""
    given = list(limits)
    known = [limit for limit in given if limit is not None]
    return max(known) if len(known) == len(given) else None


def trial_run_id(experiment: str, position: Position, attempt: int) -> str:
    """The id of a trial's run: the experiment, the input and repeat from 1, the arm, the try."""
    # Made of the position alone, so that a step that is repeated finds the run that it started
    # before.
    name = f"{experiment}-{position.entry + 1:05d}-{position.repeat + 1}-{position.arm}"
    return name if attempt == 0 else f"{name}-{attempt + 1}"


def is_trial_run(run: str, experiment: str) -> bool:
    """Whether an id is one that runs of an experiment's trials have, or their judges."""
    # The hundred-thousandth input has six digits.
    beginning = rf"{re.escape(experiment)}-\d{{5,}}-[1-9]\d*-"
    return re.match(beginning, run) is not None


def digest_of(plan: Plan, entries: Sequence[Entry]) -> str:
    """The digest of an experiment, by which a repeated start is known for the same."""
    told = plan.model_dump_json() + "".join(entry.model_dump_json() for entry in entries)
    return hashlib.sha256(told.encode()).hexdigest()
