"""What the price book knows, and how an operator's sheet changes it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices import Usage as GenaiUsage
from genai_prices import calc_price, extract_usage

from perdure.adapters.llm.pricing import ModelPrices, load_price_sheet
from perdure.adapters.settings.providers import CompatibleServer
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.llm.usage import Usage

BOOK = ModelPrices()


def sheet(tmp_path: Path, text: str) -> ModelPrices:
    path = tmp_path / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    return ModelPrices(load_price_sheet(path))


def test_all_kinds_of_tokens_cost_what_the_snapshot_says() -> None:
    used = Usage(
        input_tokens=10,
        output_tokens=3,
        cache_read_tokens=30,
        cache_write_5m_tokens=15,
        cache_write_1h_tokens=5,
    )
    card = BOOK.card("claude-sonnet-4-5")
    assert card is not None
    assert card.price is not None
    assert card.price.cost(used) == Decimal("0.00017025")
    message = {
        "model": "claude-sonnet-4-5",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 3,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 20,
            "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5},
        },
    }
    assert extract_usage(message, provider_id="anthropic").calc_price().total_price == Decimal(
        "0.00017025"
    )


@pytest.mark.parametrize(
    ("model", "window", "max_output"),
    [
        ("claude-sonnet-4-5", 200_000, 64_000),
        ("claude-sonnet-4-5-20250929", 200_000, 64_000),
        ("claude-3-haiku", 200_000, 4_096),
        ("claude-3-5-haiku-latest", 200_000, 8_192),
        ("claude-opus-4-1", 200_000, 32_000),
        ("claude-opus-5", 1_000_000, 64_000),
        pytest.param("claude-haiku-5-5", 100_000, 64_000, id="window ends where a tier begins"),
    ],
)
def test_windows_and_output_limits(model: str, window: int, max_output: int) -> None:
    card = BOOK.card(model)
    assert card is not None
    assert (card.name, card.window, card.max_output) == (model, window, max_output)
    assert card.tools
    assert card.judges


@pytest.mark.parametrize("model", ["claude-unheard-of", "gpt-5", "", "scripted:sha256:ab"])
def test_unknown_models_have_no_card(model: str) -> None:
    assert BOOK.card(model) is None


def test_a_model_with_a_fee_for_each_request_has_no_price_from_the_list(tmp_path: Path) -> None:
    now, url = datetime(2026, 11, 20, tzinfo=UTC), "https://api.perplexity.ai"
    listed = calc_price(GenaiUsage(input_tokens=1), "sonar-pro", provider_api_url=url)
    assert listed.model.id == "sonar-pro"
    assert dated(url, now).sure_card("compat:d/sonar-pro").price is None
    assert dated(url, now).sure_card("compat:d/sonar-deep-research").price is not None
    text = "models: {'compat:d/sonar-pro': {input_per_million: 3, output_per_million: 15}}"
    assert sheet(tmp_path, text).sure_card("compat:d/sonar-pro").price is not None


@pytest.mark.parametrize("model", ["local", "smollm2-135m-instruct"])
def test_the_embedded_model_is_free_by_an_explicit_entry(model: str) -> None:
    card = BOOK.card(model)
    assert card is not None
    assert card.price is not None
    assert card.price.cost(Usage(input_tokens=10**6, output_tokens=10**6)) == 0
    assert not card.judges


def test_sheet_overrides_the_snapshot_and_keeps_the_rest(tmp_path: Path) -> None:
    book = sheet(
        tmp_path,
        "models: {claude-opus-5: {input_per_million: 1.5, output_per_million: 2, max_output: 99}}",
    )
    card = book.card("claude-opus-5")
    assert card is not None
    assert card.price is not None
    assert card.price.input_per_million == Decimal("1.5")
    assert card.price.cache_read_per_million is None, "follows from the new input price"
    assert (card.window, card.max_output) == (1_000_000, 99)
    assert book.card("claude-sonnet-4-5") == BOOK.card("claude-sonnet-4-5")


@pytest.mark.parametrize(
    ("model", "stated", "read", "write"),
    [
        ("openai:gpt-4o", "", "1.25", "2"),
        ("openai:gpt-4o", ", cache_read_per_million: 0.5", "0.5", "2"),
        ("azure:writer", "", "2", "2"),
        ("compat:mine/writer", "", "2", "2"),
        ("foundry:claude-sonnet-4-5", "", "0.2", "2.5"),
    ],
)
def test_a_cache_price_that_the_sheet_leaves_out_is_the_lists_or_that_of_input(
    tmp_path: Path, model: str, stated: str, read: str, write: str
) -> None:
    text = f"models: {{'{model}': {{input_per_million: 2, output_per_million: 9{stated}}}}}"
    price = sheet(tmp_path, text).sure_card(model).price
    assert price is not None
    million = 1_000_000
    assert price.cost(Usage(cache_read_tokens=million)) == Decimal(read)
    assert price.cost(Usage(cache_write_5m_tokens=million)) == Decimal(write)


def dated(url: str, now: datetime, **stated: object) -> ModelPrices:
    server = CompatibleServer.model_validate({"url": url, **stated})
    return ModelPrices(servers={"d": server}, now=lambda: now)


@pytest.mark.parametrize("hour", [0, 2, 8, 20])
@pytest.mark.parametrize("model", ["deepseek-flash", "deepseek-chat", "deepseek-v4-flash"])
def test_where_the_price_changes_with_the_hour_the_dearest_counts(model: str, hour: int) -> None:
    now = datetime(2026, 11, 20, hour, 30, tzinfo=UTC)
    price = dated("https://api.deepseek.com/v1", now).sure_card(f"compat:d/{model}").price
    assert price is not None
    listed = [
        calc_price(
            GenaiUsage(input_tokens=1_000_000, output_tokens=1_000_000),
            model,
            provider_id="deepseek",
            genai_request_timestamp=now.replace(hour=at),
        )
        for at in range(24)
    ]
    assert len({one.total_price for one in listed}) > 1
    assert price.cost(Usage(input_tokens=1_000_000)) == max(one.input_price for one in listed)
    assert price.cost(Usage(output_tokens=1_000_000)) == max(one.output_price for one in listed)


def test_a_price_that_begins_on_a_day_counts_from_then_on_in_a_worker_that_runs() -> None:
    now = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    server = CompatibleServer(url="https://generativelanguage.googleapis.com/v1beta/openai")
    book = ModelPrices(servers={"g": server}, now=lambda: now)
    before = book.sure_card("compat:g/gemini-4-argon").price
    now += timedelta(minutes=1)
    after = book.sure_card("compat:g/gemini-4-argon").price
    assert before is not None
    assert after is not None
    assert after.input_per_million > before.input_per_million


@pytest.mark.parametrize(
    ("stated", "window", "tier"),
    [({}, 32_768, 1), ({"window": 200_000}, 200_000, 1), ({"window": 200_001}, 200_001, 250_000)],
    ids=["none stated", "up to the tier", "beyond it"],
)
def test_a_window_beyond_a_dearer_tier_has_the_price_of_the_tier(
    stated: dict[str, int], window: int, tier: int
) -> None:
    url = "https://generativelanguage.googleapis.com/v1beta/openai"
    card = dated(url, datetime(2026, 11, 20, tzinfo=UTC), **stated).sure_card(
        "compat:d/gemini-2.5-pro"
    )
    assert card.window == window
    assert card.price is not None
    asked = calc_price(
        GenaiUsage(input_tokens=tier, output_tokens=1_000_000),
        "gemini-2.5-pro",
        provider_id="google",
    )
    assert card.price.cost(Usage(input_tokens=tier)) == asked.input_price
    assert card.price.cost(Usage(output_tokens=1_000_000)) == asked.output_price


def test_sheet_adds_models(tmp_path: Path) -> None:
    book = sheet(
        tmp_path,
        "models: {my-model: {input_per_million: 1, output_per_million: 2, window: 9000,"
        " tools: false, judges: false, small: true}}",
    )
    card = book.card("my-model")
    assert card is not None
    assert (card.window, card.tools, card.judges, card.small) == (9000, False, False, True)
    assert "my-model" in book.known_names()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("models: {x: {input_per_million: 1}}", "models.x.output_per_million"),
        (
            "models: {x: {input_per_million: -1, output_per_million: 1}}",
            "models.x.input_per_million",
        ),
        ("modells: {}", "modells"),
        ("models: {x: {input: 1}}", "models.x.input"),
        ("models: [", "cannot be read"),
    ],
)
def test_wrong_sheets_name_their_place(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        sheet(tmp_path, text)


def test_empty_sheet_changes_nothing(tmp_path: Path) -> None:
    assert sheet(tmp_path, "").known_names() == BOOK.known_names()


def test_missing_sheet_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.yaml"):
        load_price_sheet(tmp_path / "none.yaml")
