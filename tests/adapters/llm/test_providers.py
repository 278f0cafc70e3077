"""Providers by the prefix of a model's name: clients, cards, and what is missing."""

from decimal import Decimal
from typing import Any

import pytest

from perdure.adapters.llm import providers
from perdure.adapters.llm.access import KeyedAddress, ModelAccess, access_from, lacking_models
from perdure.adapters.llm.pricing import ModelPrices, PriceSheet
from perdure.adapters.llm.registry import ModelCatalog
from perdure.adapters.settings.providers import CompatibleServer
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.usage import Usage
from perdure.domain.model_availability import family_of
from perdure.domain.run.bookkeeping_messages import ServedModels
from tests.adapters.llm.support import MemoryBlobs, MemoryRecords, fails, request, stores

SERVERS = {
    "box": CompatibleServer(url="http://127.0.0.1:1/v1", model="qwen", free=True, tools=False),
    "router": CompatibleServer(url="https://openrouter.ai/api/v1", key_variable="ROUTER_KEY"),
}


def names(**access: Any) -> ModelCatalog:
    blobs, records = stores(MemoryBlobs(), MemoryRecords())
    return ModelCatalog(
        access=ModelAccess(servers=SERVERS, **access),
        blobs=blobs,
        records=records,
        prices=ModelPrices(None, SERVERS),
    )


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-5", "claude"),
        ("anthropic:claude-opus-5", "claude"),
        ("local", "local"),
        ("openai:gpt-5", "openai"),
        ("azure:mine", "azure"),
        ("bedrock:anthropic.claude", "bedrock"),
        ("compat:box", "compat:box"),
        ("compat:box/a/b:c", "compat:box"),
        ("scripted:sha256:0", None),
        ("mine:large", None),
    ],
)
def test_the_family_of_a_name(model: str, family: str | None) -> None:
    assert family_of(model) == family


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("compat:bxo/qwen", "no server 'bxo'; it has box, router. Did you mean box?"),
        ("compat:router", "names no model, and its entry in PERDURE_PROVIDERS has none"),
        ("compat:", "no server ''"),
        ("openai:", "openai: names no model"),
    ],
)
def test_names_that_lead_nowhere(model: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        names().resolve(model)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:gpt-5", "Set OPENAI_API_KEY."),
        ("azure:mine", "Set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY."),
        ("compat:router/x", "Set ROUTER_KEY."),
    ],
)
async def test_a_missing_key_is_named(model: str, variable: str) -> None:
    facts = await fails(names(), request(model))
    assert (facts.kind, facts.sent) == ("authentication", False)
    assert variable in facts.message


@pytest.mark.parametrize("model", ["openai:gpt-5", "azure:mine", "compat:box"])
async def test_a_missing_client_is_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "lacking_package", lambda _: "Install it: perdure[openai].")
    facts = await fails(names(openai=KeyedAddress(key="k")), request(model))
    assert (facts.kind, facts.sent) == ("unavailable", False)
    assert "perdure[openai]" in facts.message


async def test_cards_need_no_client() -> None:
    cards = names()
    assert (await cards.card("openai:gpt-5-mini")).price is not None
    assert (await cards.card("openai:never-heard-of")).price is None, "unknown is never 0"
    box = await cards.card("compat:box")
    assert box.price is not None
    assert box.price.cost(Usage(input_tokens=1000)) == 0
    assert not box.tools
    assert (await cards.card("compat:router/openai/gpt-4o-mini")).price is not None
    assert (await cards.card("compat:router/nobody/knows")).price is None


@pytest.mark.parametrize(
    ("model", "window", "max_output", "sampling"),
    [
        ("openai:gpt-4o", 128_000, 16_384, True),
        ("openai:gpt-4.1", 1_000_000, 32_768, True),
        ("openai:gpt-4", 8_192, 4_096, True),
        ("openai:o3", 200_000, 100_000, False),
        ("openai:gpt-5", 400_000, 128_000, False),
        pytest.param("openai:gpt-5.4", 272_000, 128_000, False, id="up to its next tier"),
        ("azure:gpt-5-mini", 400_000, 128_000, False),
        ("vertex:claude-sonnet-4-5@20250929", 200_000, 64_000, False),
        ("bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000, False),
    ],
)
def test_cards(model: str, window: int, max_output: int, sampling: bool) -> None:
    card = ModelPrices().card(model)
    assert card is not None
    assert (card.name, card.window, card.max_output) == (model, window, max_output)
    assert card.sampling is sampling
    assert card.price is not None


def test_a_prefix_changes_no_price_of_claude() -> None:
    plain, prefixed = (
        ModelPrices().card("claude-opus-4-6"),
        ModelPrices().card("anthropic:claude-opus-4-6"),
    )
    assert plain is not None
    assert prefixed is not None
    assert prefixed == plain.model_copy(update={"name": "anthropic:claude-opus-4-6"})


def test_a_cache_that_is_not_priced_costs_as_much_as_plain_input() -> None:
    card = ModelPrices().card("openai:gpt-4")
    assert card is not None
    assert card.price is not None
    read = card.price.cost(Usage(cache_read_tokens=1_000_000))
    assert read == card.price.cost(Usage(input_tokens=1_000_000)) == Decimal(30)


def test_the_price_sheet_names_deployments() -> None:
    sheet = PriceSheet.model_validate(
        {"models": {"azure:mine": {"input_per_million": 1, "output_per_million": 2}}}
    )
    card = ModelPrices(sheet).card("azure:mine")
    assert card is not None
    assert card.price is not None


def test_what_the_workers_tell_of_their_providers() -> None:
    served = names(openai=KeyedAddress(key="k")).served()
    assert {"openai", "compat:box"} <= {*served.names}
    assert "compat:router" not in served.names
    assert served.serves("openai:gpt-5")
    assert served.serves("compat:box/llama")
    assert not served.serves("azure:mine")
    assert not ServedModels(names=("compat:box",)).serves("compat:router/x")


def test_what_cannot_be_called_is_told_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROUTER_KEY", "")
    settings = Settings.load(providers={name: one.model_dump() for name, one in SERVERS.items()})
    found = lacking_models(access_from(settings))
    assert "OPENAI_API_KEY" in found["openai"]
    assert "AZURE_OPENAI_ENDPOINT" in found["azure"]
    assert "ROUTER_KEY" in found["compat:router"]
    assert "compat:box" not in found
    assert all(
        "where the process of the workers starts" in found[name]
        and "a worker of your own by its own command" in found[name]
        for name in ("openai", "azure", "compat:router")
    )
    monkeypatch.setenv("ROUTER_KEY", "sk-router")
    access = access_from(Settings.load(providers=settings.providers, openai_api_key="sk-o"))
    assert {"openai", "compat:router"}.isdisjoint(lacking_models(access))
    assert "sk-router" not in repr(access)
    assert "sk-o'" not in repr(access)
