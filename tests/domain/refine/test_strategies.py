"""Strategies: read from a file, taken in turn, with fewer tools and models of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.refine.spec import Strategy, StrategyTools, strategy_of


def test_a_bare_text_is_name_and_prompt() -> None:
    strategy = Strategy.model_validate("section by section")
    assert (strategy.name, strategy.approach) == ("section by section", "section by section")
    assert strategy.chain == ()
    assert Strategy.model_validate({"name": "a", "prompt": "Look twice."}).approach == "Look twice."


@pytest.mark.parametrize(
    ("model", "chain"),
    [(None, ()), ("m", ("m",)), (["m", "n"], ("m", "n"))],
    ids=["executor", "one", "fallbacks"],
)
def test_its_models(model: object, chain: tuple[str, ...]) -> None:
    assert Strategy.model_validate({"name": "a", "model": model}).chain == chain


@pytest.mark.parametrize(
    ("tools", "offered"),
    [
        pytest.param({}, ["fs.list", "fs.read", "web.fetch"], id="all"),
        pytest.param({"allow": ["fs.*"]}, ["fs.list", "fs.read"], id="a family"),
        pytest.param({"allow": ["fs.*"], "deny": ["fs.read"]}, ["fs.list"], id="but one"),
        pytest.param({"allow": []}, [], id="none"),
        pytest.param({"allow": ["shell"]}, [], id="never more than the run has"),
    ],
)
def test_its_tools(tools: dict[str, list[str]], offered: list[str]) -> None:
    narrowed = StrategyTools.model_validate(tools)
    assert narrowed.offered(["fs.list", "fs.read", "web.fetch"]) == tuple(offered)


@given(st.integers(1, 6), st.integers(1, 40))
def test_each_comes_in_turn(count: int, iteration: int) -> None:
    each = [Strategy(name=f"s{n}") for n in range(count)]
    assert strategy_of(each, iteration) == each[(iteration - 1) % count]
    assert strategy_of(each, iteration + count) == strategy_of(each, iteration)
    assert strategy_of([], iteration) is None
    assert strategy_of(each, 0) is None
