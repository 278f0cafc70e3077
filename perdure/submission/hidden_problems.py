"""Problems that another one hides from the library: behind a wrong kind, name or part."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from perdure.domain.evaluation.evaluators import CHECK_KINDS
from perdure.domain.evaluation.rubric import Rubric, RubricProblems
from perdure.domain.foundation.problems import Problem, format_value, nearest_name
from perdure.domain.refine.spec import RefineSettings, bound_to_parts, settings_problems
from perdure.submission.layers import FIELDS_BY_KIND, Fields, steps_of, values_at

M = TypeVar("M", bound=BaseModel)
Examine = Callable[[Fields], list[Problem]]
# The block that only one kind has, and the kind.
_BLOCKS = {"roles": "roles", "delegation": "delegation", "refine": "refine", "rubric": "refine"}


def beyond_kinds(whole: Fields, examine: Examine) -> list[Problem]:
    """What is wrong with fields of no known kind whichever kind is meant.

    Args:
        whole: the fields; nobody can tell what their kind is to be.
        examine: finds the problems of fields of a known kind.
    """
    likely = next((kind for block, kind in _BLOCKS.items() if block in whole), "agent")
    found = {kind: examine({**whole, "kind": kind}) for kind in FIELDS_BY_KIND}
    others = [problems for kind, problems in found.items() if kind != likely]
    return [
        problem
        for problem in found[likely]
        if all(any(_holds(one.path, problem.path) for one in each) for each in others)
    ]


def misspelt_name_problems(
    whole: Fields, wrong: Sequence[Problem], examine: Examine
) -> list[Problem]:
    """What is wrong in blocks whose form is named by a misspelt word, such as `check: lenth`.

    Args:
        whole: the fields.
        wrong: what was found in them.
        examine: finds the problems of fields.
    """
    found: list[Problem] = []
    for block, field, meant in _misspelt(whole, wrong):
        steps = steps_of(block)
        mended = _put(whole, [*steps, field], meant)
        name = f"{block}.{field}"
        found += [
            problem
            for problem in examine(mended)
            if _holds(block, problem.path) and problem.path not in {block, name}
        ]
    known = {str(problem) for problem in wrong}
    return [problem for problem in found if str(problem) not in known]


def of_sound_parts(whole: Fields, rubric_problems: RubricProblems) -> list[Problem]:
    """What is wrong with parts that are well formed, where others are not.

    Args:
        whole: the fields, which make no specification.
        rubric_problems: finds patterns and schemas of a rubric that cannot be used.
    """
    rubric, found = whole.get("rubric"), list[Problem]()
    for index, item in enumerate(rubric if isinstance(rubric, list) else ()):
        alone = _made(Rubric, [item])
        told = rubric_problems(alone) if alone is not None else ()
        found += [_moved(problem, index) for problem in told]
    sound = _made(Rubric, rubric)
    settings = _made(RefineSettings, whole.get("refine", {}))
    if sound is not None and settings is not None and whole.get("kind") == "refine":
        found += settings_problems(settings, sound)
    if sound is not None and whole.get("kind") == "delegation":
        found += bound_to_parts(sound)
    return found


def _misspelt(whole: Fields, wrong: Sequence[Problem]) -> Iterator[tuple[str, str, str]]:
    """The block, the field that names its form, and the name that was probably meant."""
    for problem in wrong:
        value = next(values_at(whole, steps_of(problem.path)), None)
        block, _, field = problem.path.rpartition(".")
        # A field that is not known has a near name too; its value is not what is wrong.
        if block and problem.nearest and problem.found == format_value(value):
            yield block, field, problem.nearest
        elif isinstance(value, dict) and isinstance(name := value.get("check"), str):
            near = nearest_name(name, CHECK_KINDS)
            if near is not None and near != name:
                yield problem.path, "check", near


def _holds(outer: str, inner: str) -> bool:
    """Whether a place is another one, or around it."""
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def _made(model: type[M], value: JsonValue) -> M | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _moved(problem: Problem, index: int) -> Problem:
    path = problem.path.replace("rubric[0]", f"rubric[{index}]", 1)
    return problem.model_copy(update={"path": path})


def _put(whole: Fields, steps: Sequence[str | int], value: JsonValue) -> Fields:
    """The fields with another value in one place; all of the way there exists."""
    made = _replaced(whole, steps, value)
    assert isinstance(made, dict)
    return made


def _replaced(node: JsonValue, steps: Sequence[str | int], value: JsonValue) -> JsonValue:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    match node, step:
        case dict(), str():
            return {**node, step: _replaced(node.get(step), rest, value)}
        case list(), int():
            return [*node[:step], _replaced(node[step], rest, value), *node[step + 1 :]]
        case _:
            return value
