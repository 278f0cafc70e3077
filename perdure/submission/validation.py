"""Everything wrong with a specification at once, in sentences for people."""

from collections.abc import Iterable, Sequence

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.rubric import Rubric, RubricProblems, no_problems
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem, nearest_name, problems_of
from perdure.domain.refine.spec import RefineSpec, bound_to_parts, settings_problems
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import RUN_SPEC, Spec, rubric_of
from perdure.submission.fields import field_names
from perdure.submission.layers import Fields, Layer, meant_kind, source_of, steps_of


def validated(
    whole: Fields,
    layers: Sequence[Layer] = (),
    *,
    problems: Iterable[Problem] = (),
    rubric_problems: RubricProblems = no_problems,
) -> Spec:
    """The specification that the fields make.

    Args:
        whole: all layers as one.
        layers: where the fields come from; defaults are named in messages.
        problems: what was found wrong before; reported together with the rest.
        rubric_problems: finds patterns and schemas of a rubric that cannot be used.

    Raises:
        InvalidInput: anything is wrong; the message lists it all.
    """
    spec, wrong = _examined(whole)
    rubric = rubric_of(spec)
    if rubric is not None:
        wrong += rubric_problems(rubric)
    kind = whole.get("kind")
    meant = meant_kind(kind) if isinstance(kind, str) else kind
    if meant != kind:
        # A typo in the kind must not hide what else is wrong.
        wrong += _examined({**whole, "kind": meant})[1]
    found = [*problems, *wrong]
    if spec is None or found:
        raise refusal([_with_source(problem, layers) for problem in found])
    return spec


def refusal(problems: Sequence[Problem]) -> InvalidInput:
    """One error that lists every problem, in the order of their paths."""
    listed = sorted({str(problem): problem for problem in problems}.items(), key=lambda it: it[0])
    lines = "\n".join(f"  {text}" for text, _ in listed)
    count = "1 problem" if len(listed) == 1 else f"{len(listed)} problems"
    return InvalidInput(
        f"The specification has {count}:\n{lines}\n",
        cure="Nothing was started; correct them all.",
        problems=((problem.path, problem.words) for _, problem in listed),
    )


def _examined(whole: Fields) -> tuple[Spec | None, list[Problem]]:
    """The specification if the fields make one, and what is wrong with it."""
    try:
        spec = _parsed(whole)
    except ValidationError as error:
        return None, _translated(error, whole)
    match spec:
        case RefineSpec():
            return spec, [*settings_problems(spec.refine, spec.rubric)]
        case DelegationSpec(rubric=Rubric() as rubric):
            return spec, [*bound_to_parts(rubric)]
        case _:
            return spec, []


def _parsed(whole: Fields) -> Spec:
    # By its own model where the kind is known: the union would put `agent` or `refine`, which are
    # names of blocks too, into every path.
    match whole.get("kind"):
        case "agent":
            return AgentSpec.model_validate(whole)
        case "refine":
            return RefineSpec.model_validate(whole)
        case "roles":
            return RolesSpec.model_validate(whole)
        case "delegation":
            return DelegationSpec.model_validate(whole)
        case _:
            return RUN_SPEC.validate_python(whole)


def _translated(error: ValidationError, whole: Fields) -> list[Problem]:
    # `problems_of` keeps the order of pydantic's own list; each is put into better words here.
    details = [
        detail
        for detail in error.errors(include_url=False)
        # As there: a default that waits for a bad field only repeats that field's problem.
        if detail["type"] != "default_factory_not_called"
    ]
    plain = problems_of(error, whole)
    merged: dict[str, Problem] = {}
    for detail, problem in zip(details, plain, strict=True):
        better = _in_words(detail, problem, whole)
        known = merged.get(better.path)
        if known is not None and known.allowed != better.allowed:
            # The alternatives of a union each complain on their own.
            better = known.model_copy(update={"allowed": f"{known.allowed}, or {better.allowed}"})
        merged[better.path] = better
    return list(merged.values())


def _in_words(detail: ErrorDetails, problem: Problem, whole: JsonValue) -> Problem:
    kind = detail["type"]
    if kind == "extra_forbidden":
        steps = steps_of(problem.path)
        names = field_names(whole, steps[:-1])
        return problem.model_copy(
            update={
                "allowed": "one of " + ", ".join(names) if names else problem.allowed,
                "nearest": nearest_name(str(steps[-1]), names) if steps else None,
            }
        )
    return problem


def _with_source(problem: Problem, layers: Sequence[Layer]) -> Problem:
    source = source_of([layer for layer in layers if layer.defaults], problem.path)
    higher = source_of([layer for layer in layers if not layer.defaults], problem.path)
    if source is None or higher is not None:
        return problem
    return problem.model_copy(update={"path": f"{problem.path} (in {source})"})
