"""Every decorator of the package with brackets, without, and with a name in the wrong place."""

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
