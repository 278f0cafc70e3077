"""What families of models can be told; families after this table are left to their provider."""

import pytest

from perdure.adapters.llm.abilities import Abilities, abilities_of
from perdure.adapters.llm.access import NEWEST
from perdure.adapters.llm.pricing import ModelPrices, PriceSheet


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-3-5-sonnet-20241022", ()),
        ("claude-3-7-sonnet-20250219", ("off", "tokens")),
        ("claude-opus-4-1-20250805", ("off", "tokens")),
        ("claude-opus-4-6", ("off", "adaptive", "tokens")),
    ],
)
def test_the_longest_start_of_a_name_decides(model: str, thinking: tuple[str, ...]) -> None:
    assert abilities_of(model).thinking == thinking


@pytest.mark.parametrize(
    ("model", "max_output"),
    [
        ("claude-opus-4-20250514", 32_000),
        ("bedrock:us.anthropic.claude-opus-4-20250514-v1:0", 32_000),
        ("bedrock:us.anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("vertex:claude-opus-4@20250514", 32_000),
        ("vertex:claude-opus-4-1@20250805", 32_000),
        ("bedrock:us.anthropic.claude-sonnet-4-20250514-v1:0", 64_000),
        ("vertex:claude-sonnet-4@20250514", 64_000),
    ],
)
def test_a_model_takes_the_same_in_every_cloud(model: str, max_output: int) -> None:
    card = ModelPrices().card(model)
    assert card is not None
    assert (card.max_output, card.thinking, card.effort) == (max_output, ("off", "tokens"), ())


@pytest.mark.parametrize("model", [*NEWEST.values(), "somebody-elses"])
def test_what_came_later_is_left_open(model: str) -> None:
    assert abilities_of(model) == Abilities()


def test_the_price_sheet_says_it_of_any_model() -> None:
    entry = {
        "input_per_million": 1,
        "output_per_million": 2,
        "thinking": ["adaptive"],
        "effort": ["low"],
        "sampling": True,
    }
    sheet = PriceSheet.model_validate({"models": {"own": entry, "plain": {**entry, "effort": []}}})
    card = ModelPrices(sheet).card("own")
    assert card is not None
    assert (card.thinking, card.effort, card.sampling) == (("adaptive",), ("low",), True)
    plain = ModelPrices(sheet).card("plain")
    assert plain is not None
    assert plain.effort == ()
