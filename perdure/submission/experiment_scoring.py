"""Reads where the scores of an experiment come from."""

from collections.abc import Sequence

from pydantic import JsonValue, TypeAdapter, ValidationError

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.experiments import judging
from perdure.domain.experiments.plan import (
    JUDGE_BUDGET,
    Entry,
    ExperimentBudget,
    Fields,
    JudgeScore,
    Scoring,
)
from perdure.domain.foundation.problems import Problem, format_value, problems_of
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.specs import Spec
from perdure.submission.findings import experiment_error
from perdure.submission.types import Surroundings

JUDGE_PASSES = 0.8
FORMS = (
    "rubric, labels, {check: …}, {rubric: […]} or {judge: criteria, model: name, budget: {…}}, "
    "each with passes"
)
JUDGE_FIELDS = frozenset({"judge", "model", "budget"})
_EVALUATORS: TypeAdapter[Rubric] = TypeAdapter(Rubric)


def scoring_of(
    given: str | Fields, spec: Spec | None, entries: Sequence[Entry], surroundings: Surroundings
) -> Scoring:
    """Where scores come from.

    Args:
        given: as written in the file.
        spec: a task of the experiment; None if none can be run.
        entries: the inputs.
        surroundings: which models judge, and which checks can be used.

    Raises:
        InvalidInput: it is not valid, or the task or the inputs cannot provide the scores.
    """
    fields: Fields = {given: True} if isinstance(given, str) else dict(given)
    passes = fields.pop("passes", None)
    try:
        scoring = _of_known_form(fields, surroundings)
        if scoring is None:
            raise experiment_error(
                [Problem(path="score", found=format_value(given), allowed=FORMS)]
            )
        if passes is not None:
            scoring = Scoring.model_validate({**scoring.model_dump(), "passes": passes})
    except ValidationError as error:
        raise experiment_error(problems_of(error, given, root="score")) from None
    if scoring.by == "rubric" and spec is not None and not isinstance(spec, RefineSpec):
        raise experiment_error([
            Problem(
                path="score",
                found=f"rubric, and a task of kind {spec.kind}",
                allowed="check, judge or labels for a task without a rubric",
            )
        ])  # fmt: skip
    require_labels(scoring, entries)
    if scoring.by == "judge" and entries:
        taken = sorted(judging.OWN_NAMES & entries[0].context.keys())
        if taken:
            raise experiment_error([
                Problem(
                    path=f"inputs.{name}",
                    found="a field that would hide what the judge is told under this name",
                    allowed="a field of another name, in all inputs and in the task",
                )
                for name in taken
            ])  # fmt: skip
    if scoring.rubric is not None and (wrong := surroundings.rubric_problems(scoring.rubric)):
        raise experiment_error(wrong)
    return scoring


def require_labels(scoring: Scoring, entries: Sequence[Entry]) -> None:
    """Refuse inputs without the right answer where labels score: each of their outputs is wrong.

    Raises:
        InvalidInput: an input has none.
    """
    bare = [entry.name for entry in entries if entry.expected is None]
    if scoring.by == "labels" and bare:
        raise experiment_error([
            Problem(
                path=f"inputs.{bare[0]}.expected",
                found="nothing",
                allowed="the right answer, for `score: labels`",
            )
        ])  # fmt: skip


def budget_of(given: JsonValue, *, path: str) -> ExperimentBudget:
    """Limits as written in a file: a number is USD.

    Raises:
        InvalidInput: it is neither that nor `cost_usd` and `tokens`.
    """
    number = isinstance(given, int | float) and not isinstance(given, bool)
    fields = {"cost_usd": given} if number else {} if given is None else given
    try:
        return ExperimentBudget.model_validate(fields)
    except ValidationError as error:
        raise experiment_error(problems_of(error, given, root=path)) from None


def _of_known_form(fields: Fields, surroundings: Surroundings) -> Scoring | None:
    match fields:
        # Nothing beside it, or a misspelt field would be lost without a word.
        case {"rubric": True} if len(fields) == 1:
            return Scoring()
        case {"labels": _} if len(fields) == 1:
            return Scoring(by="labels")
        case {"judge": str() as criteria} if fields.keys() <= JUDGE_FIELDS:
            model = fields.get("model", surroundings.default_model)
            if not isinstance(model, str) or not surroundings.judges(model):
                allowed = "a model that may judge"
                raise experiment_error(
                    [Problem(path="score.model", found=format_value(model), allowed=allowed)]
                )
            limits = budget_of(fields.get("budget"), path="score.budget").over(JUDGE_BUDGET)
            # Zero means unlimited.
            most = limits.cost_usd or None
            judge = JudgeScore(criteria=criteria, model=model, budget=limits, most_usd=most)
            return Scoring(by="judge", judge=judge, passes=JUDGE_PASSES)
        case {"check": _}:
            rubric: JsonValue = [{"name": "held out", "evaluator": fields}]
        case {"rubric": list() as dimensions}:
            rubric = dimensions
        case _:
            return None
    checks = _EVALUATORS.validate_python(rubric)
    other = [one.name for one in checks.dimensions if one.pure_check is None]
    if other:
        raise experiment_error([
            Problem(
                path=f"score.{other[0]}",
                found="a judge, a person or a program",
                allowed="checks of the text alone; {judge: …} for a judge",
            )
        ])  # fmt: skip
    return Scoring(by="check", rubric=checks)
