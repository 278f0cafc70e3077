"""Turns an experiment's file into a plan and inputs; all arms are checked before anything starts.

Memory is off unless an arm turns it on: a run that learned from an earlier one of the same
experiment would make its arm look better the later it runs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.experiments.plan import (
    MOST_ARMS,
    MOST_TRIES,
    Arm,
    Entry,
    ExperimentBudget,
    Fields,
    JudgeScore,
    Plan,
    Scoring,
    Tries,
    over,
    trial_task,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem, nearest_name, problems_of, shown
from perdure.domain.ports import BlobStore
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.specs import Spec
from perdure.submission.experiment_inputs import entries_of, read_inputs
from perdure.submission.file_references import with_addresses
from perdure.submission.layers import steps_of
from perdure.submission.loading import load, load_data
from perdure.submission.parse_yaml import fields_of, read_file
from perdure.submission.types import Flags, Submission, Surroundings

BEST_OF, OF = "best_of", "of"
JUDGE_PASSES = 0.8
ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
# How the ids of further tries of an arm end, so an arm's own name must not.
TRY = re.compile(r"-\d+$")
WITHOUT_MEMORY: Fields = {"recall": False, "learn": False}
ONE_ITERATION: Fields = {"refine": {"max_iterations": 1, "min_iterations": 1}}
USUAL_ARMS: dict[str, JsonValue] = {
    "loop": {},
    "single": {"refine.max_iterations": 1},
    BEST_OF: {BEST_OF: "same_tokens"},
}
_EVALUATORS: TypeAdapter[Rubric] = TypeAdapter(Rubric)


class ExperimentFile(FrozenModel):
    """The fields of an experiment's file, before its task and inputs are read."""

    task: str | dict[str, JsonValue]
    inputs: str | list[JsonValue]
    name: str | None = None
    arms: dict[str, JsonValue] | None = None
    repeats: int = 1
    parallel: int = 4
    score: str | dict[str, JsonValue] = "rubric"
    budget: float | dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSubmission:
    """A valid experiment: its plan, its inputs, and the files to store before it starts."""

    plan: Plan
    entries: tuple[Entry, ...]
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load_experiment(path: str, *, surroundings: Surroundings) -> ExperimentSubmission:
    """Read an experiment's file; paths in it are relative to its folder.

    Raises:
        NotFound: the file, its task or its inputs do not exist.
        InvalidInput: something is wrong; the message lists all problems.
    """
    folder = surroundings.folder
    if folder is None:
        raise InvalidInput("Experiments are read from files by commands alone.")
    file = (folder / path).absolute()
    around = replace(surroundings, folder=file.parent)
    return experiment_of(read_file(file), surroundings=around, name=file.stem)


def experiment_of(
    data: JsonValue, *, surroundings: Surroundings, name: str = "experiment"
) -> ExperimentSubmission:
    """Read an experiment from data, such as a REST body; without a folder, inputs must be a list.

    Raises:
        NotFound: its task or its inputs do not exist.
        InvalidInput: something is wrong; the message lists all problems.
    """
    given = _file(fields_of(data, named="The experiment"))
    raw = read_inputs(given.inputs, folder=surroundings.folder)
    entries = entries_of(raw)
    made = [_made(name, fields) for name, fields in _arms(given, surroundings).items()]
    submitted = {arm.name: _submitted(given, arm, entries[0], surroundings) for arm in made}
    arms = tuple(_arm(arm, submitted[arm.name].spec, made, entries[0]) for arm in made)
    first = submitted[made[0].name]
    scoring = _scoring(given.score, first.spec, entries, surroundings)
    plan = _plan(given, name, arms, scoring)
    _check_entries(plan, entries, surroundings)
    return ExperimentSubmission(
        plan=plan,
        entries=tuple(entries),
        blobs={key: data for one in submitted.values() for key, data in one.blobs.items()},
        notes=tuple(dict.fromkeys(note for one in submitted.values() for note in one.notes)),
    )


async def stored_plan(submitted: ExperimentSubmission, blobs: BlobStore) -> Plan:
    """Put the files of an experiment into the blob store.

    Returns:
        The plan to start, with the addresses that the store returned.
    """
    moved = {address: await blobs.put(data) for address, data in submitted.blobs.items()}
    if all(old == new for old, new in moved.items()):
        return submitted.plan
    arms = tuple(
        arm.model_copy(update={"task": with_addresses(arm.task, lambda old: moved.get(old, old))})
        for arm in submitted.plan.arms
    )
    return submitted.plan.model_copy(update={"arms": arms})


def more_entries(
    inputs: str | list[JsonValue], plan: Plan, known: Sequence[Entry], *, surroundings: Surroundings
) -> list[Entry]:
    """Further inputs of an experiment, with the same fields as its existing ones.

    Raises:
        NotFound: the inputs do not exist.
        InvalidInput: they have other fields, or the name of an existing input.
    """
    entries = entries_of(read_inputs(inputs, folder=surroundings.folder), after=known)
    _check_entries(plan, entries, surroundings)
    return entries


def _file(fields: Fields) -> ExperimentFile:
    try:
        return ExperimentFile.model_validate(fields)
    except ValidationError as error:
        raise _refused(problems_of(error, fields, names=ExperimentFile.model_fields)) from None


@dataclass(frozen=True, slots=True)
class _Arm:
    """An arm as written: the fields that it changes, and how often it tries."""

    name: str
    fields: Fields
    tries: str | int | None
    of: str | None


def _arms(given: ExperimentFile, surroundings: Surroundings) -> dict[str, JsonValue]:
    if given.arms is None:
        return USUAL_ARMS
    problems: list[Problem] = []
    if not 0 < len(given.arms) <= MOST_ARMS:
        allowed = f"1 to {MOST_ARMS} arms"
        problems.append(Problem(path="arms", found=str(len(given.arms)), allowed=allowed))
    for name, fields in given.arms.items():
        if not ARM_NAME.fullmatch(name) or TRY.search(name):
            allowed = "letters, digits, - and _, at most 32, without a number after the last -"
            problems.append(Problem(path=f"arms.{name}", found=shown(name), allowed=allowed))
        if fields is not None and not isinstance(fields, dict):
            allowed = "fields of the task that it changes, or {} for none"
            problems.append(Problem(path=f"arms.{name}", found=shown(fields), allowed=allowed))
    if problems:
        raise _refused(problems)
    return given.arms


def _made(name: str, given: JsonValue) -> _Arm:
    fields = dict(given) if isinstance(given, dict) else {}
    of = fields.pop(OF, None) if BEST_OF in fields else None
    tries = fields.pop(BEST_OF, None)
    count = isinstance(tries, int) and not isinstance(tries, bool) and 1 <= tries <= MOST_TRIES
    if not (tries is None or count or tries in {"same_tokens", "same_calls"}):
        allowed = f"same_tokens, same_calls or a number from 1 to {MOST_TRIES}"
        path = f"arms.{name}.{BEST_OF}"
        raise _refused([Problem(path=path, found=shown(tries), allowed=allowed)])
    wanted = tries if isinstance(tries, str | int) else None
    return _Arm(name, _nested(fields), wanted, of if isinstance(of, str) else None)


def _nested(fields: Fields) -> Fields:
    """The fields with dotted names as blocks, as `refine.max_iterations` is a field of `refine`."""
    whole: Fields = {}
    for path, value in fields.items():
        steps = [str(step) for step in steps_of(path)] or [path]
        nested: Fields = {steps[-1]: value}
        for step in reversed(steps[:-1]):
            nested = {step: nested}
        whole = over(whole, nested)
    return whole


def _submitted(
    given: ExperimentFile, arm: _Arm, first: Entry, surroundings: Surroundings
) -> Submission:
    """The arm's task with the first input, read as `perdure run` would read it."""
    own = Arm(name=arm.name, task={})
    entered = trial_task(own, first, label="experiment")
    entered.pop("metadata")
    fields = over(over(WITHOUT_MEMORY, entered), arm.fields)
    try:
        plain = _load(given.task, Flags(fields=fields), surroundings)
        if arm.tries is None or not isinstance(plain.spec, RefineSpec):
            return plain
        # Trying several times replaces iterating: each try is a single iteration.
        once = over(over(WITHOUT_MEMORY, ONE_ITERATION), over(entered, arm.fields))
        return _load(given.task, Flags(fields=once), surroundings)
    except InvalidInput as error:
        raise InvalidInput(f"arms.{arm.name}: {error.message}", cure=error.cure) from None


def _load(task: str | Fields, flags: Flags, surroundings: Surroundings) -> Submission:
    if isinstance(task, str):
        return load(task, flags, surroundings=surroundings)
    return load_data(task, flags, surroundings=surroundings)


def _arm(arm: _Arm, spec: Spec, all_arms: Sequence[_Arm], first: Entry) -> Arm:
    """The arm as it is stored: its whole task, without the values of the first input."""
    task: Fields = spec.model_dump(mode="json", by_alias=True)
    context = task.get("context")
    if isinstance(context, dict):
        task["context"] = {key: text for key, text in context.items() if key not in first.context}
    return Arm(
        name=arm.name,
        task=task,
        tries=_tries(arm, all_arms),
        most_usd=spec.budget.cost_usd,
        most_tokens=spec.budget.tokens,
    )


def _tries(arm: _Arm, all_arms: Sequence[_Arm]) -> Tries | None:
    if arm.tries is None:
        return None
    if isinstance(arm.tries, int):
        return Tries(count=arm.tries)
    names = [one.name for one in all_arms if one.tries is None]
    of = arm.of or (names[0] if names else None)
    if of not in names:
        near = nearest_name(of, names) if of else None
        allowed = (
            f"one of {', '.join(names)}" if names else "an arm without best_of to compare with"
        )
        path = f"arms.{arm.name}.{OF}"
        raise _refused([Problem(path=path, found=shown(of), allowed=allowed, nearest=near)])
    spend: Literal["same_tokens", "same_calls"] = (
        "same_calls" if arm.tries == "same_calls" else "same_tokens"
    )
    return Tries(spend=spend, of=of)


def _scoring(
    given: str | Fields, spec: Spec, entries: Sequence[Entry], surroundings: Surroundings
) -> Scoring:
    """Where scores come from; raises if the task or the inputs cannot provide them."""
    fields: Fields = {given: True} if isinstance(given, str) else dict(given)
    passes = fields.pop("passes", None)
    try:
        scoring = _unjudged(fields, surroundings)
        if passes is not None:
            scoring = Scoring.model_validate({**scoring.model_dump(), "passes": passes})
    except ValidationError as error:
        raise _refused(problems_of(error, given, root="score")) from None
    if scoring.by == "rubric" and not isinstance(spec, RefineSpec):
        raise _refused([
            Problem(
                path="score",
                found=f"rubric, and a task of kind {spec.kind}",
                allowed="check, judge or labels for a task without a rubric",
            )
        ])  # fmt: skip
    if scoring.by == "labels":
        bare = [entry.name for entry in entries if entry.expected is None]
        if bare:
            raise _refused([
                Problem(
                    path=f"inputs.{bare[0]}.expected",
                    found="nothing",
                    allowed="the right answer, for `score: labels`",
                )
            ])  # fmt: skip
    if scoring.rubric is not None and (wrong := surroundings.rubric_problems(scoring.rubric)):
        raise _refused(wrong)
    return scoring


def _unjudged(fields: Fields, surroundings: Surroundings) -> Scoring:
    match fields:
        case {"rubric": True} if len(fields) == 1:
            return Scoring()
        case {"labels": _} if len(fields) == 1:
            return Scoring(by="labels")
        case {"judge": str() as criteria}:
            model = fields.get("model", surroundings.default_model)
            if not isinstance(model, str) or not surroundings.judges(model):
                allowed = "a model that may judge"
                raise _refused([Problem(path="score.model", found=shown(model), allowed=allowed)])
            judge = JudgeScore(criteria=criteria, model=model)
            return Scoring(by="judge", judge=judge, passes=JUDGE_PASSES)
        case {"check": _}:
            rubric: JsonValue = [{"name": "held out", "evaluator": fields}]
        case {"rubric": list() as dimensions}:
            rubric = dimensions
        case _:
            raise _refused([
                Problem(
                    path="score",
                    found=shown(fields),
                    allowed="rubric, labels, {check: …}, {rubric: […]} or {judge: criteria, "
                    "model: name}, each with passes",
                )
            ])  # fmt: skip
    checks = _EVALUATORS.validate_python(rubric)
    other = [one.name for one in checks.dimensions if one.pure_check is None]
    if other:
        raise _refused([
            Problem(
                path=f"score.{other[0]}",
                found="a judge, a person or a program",
                allowed="checks of the text alone; {judge: …} for a judge",
            )
        ])  # fmt: skip
    return Scoring(by="check", rubric=checks)


def _plan(given: ExperimentFile, name: str, arms: tuple[Arm, ...], scoring: Scoring) -> Plan:
    budget = given.budget
    fields = {
        "name": given.name or name,
        "repeats": given.repeats,
        "parallel": given.parallel,
        "budget": {"cost_usd": budget} if isinstance(budget, int | float) else budget or {},
    }
    try:
        ExperimentBudget.model_validate(fields["budget"])
    except ValidationError as error:
        raise _refused(problems_of(error, budget, root="budget")) from None
    try:
        return Plan.model_validate({**fields, "arms": arms, "scoring": scoring})
    except ValidationError as error:
        raise _refused(problems_of(error, fields)) from None


def _check_entries(plan: Plan, entries: Sequence[Entry], surroundings: Surroundings) -> None:
    """Check inputs that change fields of the task by reading them with each arm."""
    # Others need no check: the first was read with each arm, and they differ from it only in texts.
    for entry in (entry for entry in entries if entry.fields):
        for arm in plan.arms:
            task = trial_task(arm, entry, label=plan.name)
            try:
                load_data(task, surroundings=replace(surroundings, folder=None))
            except InvalidInput as error:
                raise InvalidInput(
                    f"inputs.{entry.name}: {error.message}", cure=error.cure
                ) from None


def _refused(problems: Sequence[Problem]) -> InvalidInput:
    told = "\n".join(f"  {problem}" for problem in problems)
    return InvalidInput(
        f"The experiment cannot be run:\n{told}", cure="Correct these; see docs/experiments.md."
    )
