"""Which families are shown images and PDFs, and what more they charge."""

import pytest

from perdure.adapters.llm.abilities import vision_of
from perdure.adapters.llm.pricing import ModelPrices, PriceSheet, unknown_card
from perdure.adapters.settings.providers import CompatibleServer

BOTH = ("image", "pdf")


@pytest.mark.parametrize(
    ("model", "takes", "factor"),
    [
        ("claude-2.1", (), 1.0),
        ("claude-3-opus-20240229", ("image",), 1.0),
        ("claude-3-5-sonnet-20241022", BOTH, 1.0),
        ("claude-opus-9", BOTH, 1.0),
        ("gpt-3.5-turbo", (), 1.0),
        ("gpt-4", (), 1.0),
        ("gpt-4-turbo-2024-04-09", ("image",), 1.0),
        ("gpt-4o-2024-08-06", BOTH, 1.0),
        ("gpt-4o-mini", BOTH, 34.0),
        ("o3-mini", (), 1.0),
        ("gpt-5", BOTH, 1.0),
        ("gpt-5-nano", BOTH, 2.46),
        ("gpt-5.4", BOTH, 2.46),
        ("llama3", (), 1.0),
    ],
)
def test_the_longest_start_of_a_name_decides(
    model: str, takes: tuple[str, ...], factor: float
) -> None:
    found = vision_of(model)
    assert found.takes == takes
    assert found.factor == factor


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("claude-sonnet-4-5", BOTH),
        ("bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0", BOTH),
        ("openai:gpt-4o", BOTH),
        ("openai:gpt-3.5-turbo", ()),
        ("local", ()),
    ],
)
def test_cards_say_it(model: str, takes: tuple[str, ...]) -> None:
    card = ModelPrices(None).sure_card(model)
    assert card.attachments == takes


def test_a_new_claude_sees_and_a_strangers_model_does_not() -> None:
    assert unknown_card("claude-next").attachments == BOTH
    assert unknown_card("somebody-elses").attachments == ()


def test_servers_and_price_sheets_declare_it() -> None:
    server = CompatibleServer(url="http://box/v1", free=True, attachments=("image",))
    card = ModelPrices(None, servers={"box": server}).sure_card("compat:box/any")
    assert card.attachments == ("image",)
    entry = {
        "input_per_million": 1,
        "output_per_million": 1,
        "attachments": ["pdf"],
        "attachment_factor": 2,
    }
    sheet = PriceSheet.model_validate({"models": {"mine": entry}})
    stated = ModelPrices(sheet).sure_card("mine")
    assert stated.attachments == ("pdf",)
    assert stated.attachment_tokens(101) == 202
