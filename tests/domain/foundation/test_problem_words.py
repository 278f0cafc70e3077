"""No defect of an input is told in a library's phrases or by the name of a class of ours."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError
from pydantic_core import _pydantic_core

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import Budget
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.problems import (
    Problem,
    allowed_in_words,
    known_to_library,
    problems_of,
)
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.definition import LoopDefinition, RoleDefinition
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.message_forms import Misread, read_form
from perdure.domain.run.messages import MESSAGES
from perdure.domain.specs import RUN_SPEC

KINDS = (AgentSpec, RefineSpec, RolesSpec, DelegationSpec)
MODELS: dict[str, type[BaseModel]] = {
    one.__name__: one for one in (*KINDS, Budget, Rubric, RoleDefinition, LoopDefinition)
}
WRONG = (None, 7, -1.5, True, "x", "", [], [1], ["x"], {}, {"x": 1}, [{"x": []}], float("nan"))
PHRASES = re.compile(
    r"Input should|valid (string|integer|dictionary|list|tuple|number|boolean|decimal|mapping)"
    r"|instance of|discriminator|Unable to|unable to|Field required|not permitted|Value error"
    r"|(String|Tuple|List|Decimal|Data|Dictionary) (input )?should|pydantic|dict\b|frozenset"
)
CLASSES = re.compile(r"\b[A-Z][a-z]+(?:Spec|Definition|Settings|Bound|Check|Evaluator|Model)\b")


def told(model: type[BaseModel], value: object) -> list[str]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [problem.words for problem in problems_of(error, value)]
    return []


def bad(words: str) -> bool:
    allowed_part = words.partition("; allowed: ")[2] or words
    return bool(PHRASES.search(allowed_part) or CLASSES.search(allowed_part))


@pytest.mark.parametrize("name", MODELS)
def test_wrong_shapes_in_every_field(name: str) -> None:
    model = MODELS[name]
    found = [
        (field, wrong, words)
        for field in model.model_fields
        for wrong in WRONG
        for value in ({field: wrong}, {field: {"x": wrong}}, {field: [wrong]})
        for words in told(model, value)
        if bad(words)
    ]
    assert not found
    assert not [words for wrong in WRONG for words in told(model, wrong) if bad(words)]


def blocks() -> Iterator[tuple[str, str, object]]:
    for kind in KINDS:
        for name, field in kind.model_fields.items():
            inner = field.annotation
            for found, _ in getattr(inner, "model_fields", {}).items():
                for wrong in WRONG:
                    yield kind.__name__, f"{name}.{found}", {name: {found: wrong}}


def test_wrong_shapes_in_every_block_of_a_task() -> None:
    assert not [
        (kind, path, words)
        for kind, path, value in blocks()
        for words in told(MODELS[kind], {"goal": "g", **value})  # pyright: ignore[reportGeneralTypeIssues]
        if bad(words)
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "kind",
                        "goal",
                        "rubric",
                        "budget",
                        "check",
                        "evaluator",
                        "judge",
                        "termination",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_shape_as_a_task(value: object) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        RUN_SPEC.validate_python(value)
    except ValidationError as error:
        problems = problems_of(error, value)
    assert not [one for one in problems if bad(one.words)]


@pytest.mark.parametrize("verb", MESSAGES)
def test_wrong_shapes_in_every_message(verb: str) -> None:
    form = MESSAGES[verb]
    for field in form.model_fields:
        for wrong in WRONG:
            read = read_form(verb, form, [{field: wrong}])
            if isinstance(read, Misread):
                assert not bad(read.why.replace("; send ", "; allowed: ").partition(";")[0]), read


@pytest.mark.parametrize("kind", [str(one["type"]) for one in _pydantic_core.list_all_errors()])
def test_every_defect_that_the_library_knows(kind: str) -> None:
    phrase = "Input should be a valid dictionary or instance of RoleDefinition"
    words = allowed_in_words({"type": kind, "msg": phrase, "ctx": defaultdict(lambda: 2)})
    assert words
    assert not bad(words)
    assert known_to_library(kind) or phrase not in words


def test_words_of_our_own_validators_stay() -> None:
    def odd(value: int) -> int:
        if value % 2 == 0:
            raise ValueError("an odd number, as 3")
        return value

    with pytest.raises(ValidationError) as raised:
        TypeAdapter(Annotated[int, AfterValidator(odd)]).validate_python(2)
    assert str(problems_of(raised.value, 2)[0]) == "input: found 2; allowed: an odd number, as 3."
