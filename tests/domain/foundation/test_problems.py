"""Problems of an input: path, finding, what is allowed, nearest name."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import Problem, format_value, path_of, problems_of


class Cat(FrozenModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1)


class Dog(FrozenModel):
    kind: Literal["dog"]
    dog: str = ""


class Home(FrozenModel):
    pets: tuple[Annotated[Cat | Dog, Field(discriminator="kind")], ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            {}, "pets: found nothing; allowed: a value; the field is required.", id="lost"
        ),
        pytest.param(
            {"pets": [{"kind": "cat", "lives": 0}]},
            "pets[0].lives: found 0; allowed: at least 1.",
            id="path without the tag",
        ),
        pytest.param(
            {"pets": [{"kind": "dog", "dog": 1}]},
            "pets[0].dog: found 1; allowed: a text.",
            id="a field named like its tag",
        ),
        pytest.param(
            {"pets": [{"kind": "dgo"}]},
            'pets[0].kind: found "dgo"; allowed: one of cat, dog. Did you mean dog?',
            id="tag",
        ),
        pytest.param(
            {"pets": [], "pest": 1},
            "pest: found the field pest; allowed: one of kind, pets. Did you mean pets?",
            id="typo",
        ),
        pytest.param("x", 'input: found "x"; allowed: an object with named fields.', id="no"),
    ],
)
def test_problems(value: object, expected: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Home.model_validate(value)
    problems = problems_of(raised.value, value, names=("pets", "kind"))
    assert [str(problem) for problem in problems] == [expected]


def test_a_root_goes_before_every_path() -> None:
    assert path_of("refine", ("output", 0, "x")) == "refine.output[0].x"
    assert path_of("", ("a", 1)) == "a[1]"


def test_a_long_value_is_cut_and_an_odd_one_is_shown() -> None:
    assert len(format_value("x" * 500)) == 80
    assert format_value({1, 2}.__class__).startswith("<class")
    assert format_value(["half \ud83d, whole 😀"]) == '["half \\ud83d, whole 😀"]'
    assert str(Problem(path="a", found="1", allowed="2")) == "a: found 1; allowed: 2."


def test_a_long_name_of_a_field_is_cut() -> None:
    long = "x" * 2_000
    with pytest.raises(ValidationError) as raised:
        Home.model_validate({"pets": [], long: 1})
    (problem,) = problems_of(raised.value, {"pets": [], long: 1}, names=("pets", long[:-1]))
    cut = f"{long[:79]}…"
    assert str(problem).startswith(f"{cut}: found the field {cut}; allowed: one of ")
    assert problem.nearest is None


class _Inner(BaseModel):
    kind: Literal["a"] = "a"


class _Other(BaseModel):
    kind: Literal["b"] = "b"


class _Outer(BaseModel):
    inner: _Inner = _Inner()
    either: Annotated[_Inner | _Other, Field(discriminator="kind")] = _Inner()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"inner": "Done."}, "an object with named fields"),
        ({"inner": ["x"]}, "an object with named fields"),
        ({"either": "x"}, "an object with named fields"),
        ({"either": {}}, "either.kind"),
        ("x", "an object with named fields"),
    ],
)
def test_no_class_of_ours_is_named(given: object, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Outer.model_validate(given)
    words = " ".join(str(problem) for problem in problems_of(caught.value, given))
    assert told in words
    assert not [
        word for word in ("_Inner", "_Outer", "instance of", "discriminator") if word in words
    ]


class Limits(FrozenModel):
    tokens: int | None = None
    wall_time: float | None = None
    timeout_s: int | None = None
    timeouts: dict[str, float] = {}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"wall_time": "60s"}, 'wall_time: found "60s"; allowed: a number of seconds.'),
        ({"timeout_s": "1m"}, 'timeout_s: found "1m"; allowed: a whole number of seconds.'),
        ({"timeouts": {"fs": "1m"}}, 'timeouts.fs: found "1m"; allowed: a number of seconds.'),
        ({"tokens": "60s"}, 'tokens: found "60s"; allowed: a whole number.'),
    ],
)
def test_a_time_says_that_it_is_counted_in_seconds(
    fields: dict[str, object], expected: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        Limits.model_validate(fields)
    assert [str(problem) for problem in problems_of(raised.value, fields)] == [expected]
