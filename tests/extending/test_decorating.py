"""Every decorator of the package with brackets, without, and with a name in the wrong place."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from perdure import EndFacts, IterationFacts, adapt, check, on_end, on_iteration, tool
from perdure.domain.foundation.errors import InvalidInput


def short(output: str) -> bool:
    return len(output) < 9


def price(article: str) -> str:
    """The price of an article.

    Args:
        article: its name.
    """
    return f"{article}: 12.50"


def widen(facts: IterationFacts) -> dict[str, float]:
    return {"least": 0.5}


def seen(facts: IterationFacts) -> None:
    """Look at an iteration."""


def told(facts: EndFacts) -> None:
    """Tell of the end."""


DECORATORS = [(check, short), (tool, price), (adapt, widen), (on_iteration, seen), (on_end, told)]


@pytest.mark.parametrize(("decorator", "function"), DECORATORS)
def test_brackets_may_be_left_out(decorator: Any, function: Any) -> None:
    bare, with_brackets = decorator(function), decorator()(function)
    assert type(bare) is type(with_brackets)
    assert bare.function is with_brackets.function is function
    named = decorator(name="acme.one")(function)
    assert {getattr(one, "name", None) or one.fact.name for one in (bare, named)} == {
        function.__name__, "acme.one",
    }  # fmt: skip


@pytest.mark.parametrize(("decorator", "function"), DECORATORS)
@pytest.mark.parametrize("given", ["acme.plain", 3, ["x"]])
def test_a_name_is_given_by_its_name(decorator: Any, function: Any, given: object) -> None:
    with pytest.raises(InvalidInput, match=r"@\w+: found .* in front; .* Write @\w+\(name="):
        decorator(given)(function)


class Plain:
    """A type that no JSON describes."""

    def __call__(self, output: str) -> bool:
        return True


def _unusable() -> dict[str, tuple[Callable[..., object], str]]:
    """Functions that nobody could call, and what is said of them."""

    def spread(output: Any, *words: str) -> bool: ...
    def others(output: Any, **words: str) -> bool: ...
    def unnamed(output: Any, word: str, /) -> bool: ...
    def bare(output: Any, word) -> bool: ...  # pyright: ignore[reportMissingParameterType]
    def hidden(output: Any, _word: str = "") -> bool: ...
    def taken(output: Any, model_config: str = "") -> bool: ...
    def untyped(output: Any, word: Plain) -> bool: ...
    def unknown(output: Any, word: Plain) -> bool: ...
    def described(output: Any, word: Plain) -> bool: ...

    unknown.__annotations__["word"] = "Nowhere"
    described.__annotations__["word"] = "a number"

    return {
        "*args": (spread, "'words' of"),
        "**kwargs": (others, "'words' of"),
        "by place": (unnamed, "cannot be passed by name"),
        "no annotation": (bare, "no type annotation"),
        "underscore": (hidden, "'_word' of"),
        "a name of pydantic": (taken, "'model_config' of"),
        "a type without JSON": (untyped, "'word' of"),
        "a type that is not there": (unknown, "'Nowhere' is not defined"),
        "words for a type": (described, "got 'a number'"),
        "a class": (Plain, "no function"),
        "an object": (Plain(), "no function"),
    }


@pytest.mark.parametrize("decorator", [check, tool, adapt, on_iteration, on_end])
@pytest.mark.parametrize(("function", "said"), _unusable().values(), ids=_unusable())
def test_what_nobody_could_call_is_refused_where_it_is_decorated(
    decorator: Any, function: Callable[..., object], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        decorator(name="acme.one")(function)
    assert said in caught.value.message


@pytest.mark.parametrize("decorator", [check, adapt, on_end])
def test_what_comes_first_is_not_passed_by_name(decorator: Any) -> None:
    def named(*, output: str) -> bool: ...

    with pytest.raises(InvalidInput, match=r"acme\.one takes no"):
        decorator(name="acme.one")(named)


def test_parameters_may_have_the_names_of_old_methods() -> None:
    @check(name="acme.named")
    def named(output: str, schema: str, copy: int, json: bool = True) -> bool:
        return (schema, copy, json) == ("s", 1, True)

    assert named.verdict("", {"schema": "s", "copy": 1}) is True


@pytest.mark.parametrize("name", ["length", "contains", "plain", "judge"])
def test_a_check_that_no_rubric_could_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="Put a dot into its name"):
        check(name=name)(short)
    assert check(name=f"acme.{name}")(short).name == f"acme.{name}"


def test_a_parameter_that_no_rubric_could_give_is_refused() -> None:
    def clashing(output: str, check: str) -> bool: ...

    with pytest.raises(InvalidInput, match="'check' of check acme"):
        check(name="acme.clashing")(clashing)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"access": "admin"}, "one of read, write"),
        ({"tags": "money"}, 'tags: found "money"'),
        ({"timeout_s": -1}, "time limit of -1 s"),
        ({"timeout_s": float("nan")}, "time limit of nan s"),
    ],
)
def test_wrong_facts_of_a_tool_are_told_in_words(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        tool(**fields)(price)
    assert said in caught.value.message


@pytest.mark.parametrize("name", [5, "Acme", "acme.\n", "acme.short\n"])
def test_what_is_no_name_is_refused(name: Any) -> None:
    decorated: list[Any] = [(tool, price), (check, short), (adapt, widen), (on_end, seen)]
    for decorate, function in decorated:
        with pytest.raises(InvalidInput, match="is malformed"):
            decorate(name=name)(function)


def test_what_no_model_can_be_told_is_refused() -> None:
    async def drip() -> AsyncIterator[int]:
        yield 1

    def odd(share: float = float("nan")) -> str: ...

    with pytest.raises(InvalidInput, match="asynchronous generator"):
        tool(drip)
    with pytest.raises(InvalidInput, match="no number of JSON"):
        tool(odd)
