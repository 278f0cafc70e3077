"""From a model's name to its client and card."""

import os
import subprocess
import sys
from datetime import date
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from perdure.adapters.llm.access import ModelAccess, access_from, default_model, lacking_models
from perdure.adapters.llm.embedded_client import EmbeddedModel
from perdure.adapters.llm.foreign_model import ForeignModel
from perdure.adapters.llm.messages import MessagesModel
from perdure.adapters.llm.pricing import ModelPrices, PriceSheet, SheetEntry
from perdure.adapters.llm.registry import ModelCatalog, model_plugins
from perdure.adapters.llm.scripted import ScriptedModel
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from tests.adapters.llm.support import (
    MemoryBlobs,
    MemoryRecords,
    fails,
    request,
    say,
    script_name,
    scripted,
    stores,
)

SCRIPT = "replies: [{text: hi}]"
SHEET = PriceSheet(models={"own": SheetEntry(input_per_million=1, output_per_million=2)})  # type: ignore[arg-type]


def catalog(sheet: PriceSheet | None = None, plugins: Any = None, **access: Any) -> ModelCatalog:
    blobs, records = stores(MemoryBlobs(SCRIPT), MemoryRecords())
    return ModelCatalog(
        access=ModelAccess(**access),
        blobs=blobs,
        records=records,
        prices=ModelPrices(sheet),
        plugins=plugins,
    )


@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("claude-sonnet-4-5", MessagesModel),
        ("claude-sonnet-4-5-20250929", MessagesModel),
        pytest.param("claude-sonnet-9", MessagesModel, id="a version newer than the prices"),
        ("own", MessagesModel),
        ("local", EmbeddedModel),
        ("smollm2-135m-instruct", EmbeddedModel),
        (script_name(SCRIPT), ScriptedModel),
        (script_name(SCRIPT, "small"), ScriptedModel),
        ("scripted:hmac:" + "a" * 64, ScriptedModel),
    ],
)
def test_names_lead_to_their_client(name: str, client: type) -> None:
    assert isinstance(catalog(SHEET).resolve(name).client, client)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("claude-sonet-4-5", "Did you mean claude-sonnet-4-5?"),
        ("locl", "Did you mean local?"),
        ("gpt-5", "price sheet"),
        ("", "price sheet"),
        ("scripted:demo.yaml", "by its file"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        catalog().resolve(name)
    assert hint in str(caught.value)


async def test_as_a_client_an_unknown_name_is_a_model_error() -> None:
    facts = await fails(catalog(), request("claude-sonet-4-5"))
    assert facts.kind == "unknown_model"
    assert not facts.sent
    assert "claude-sonnet-4-5" in facts.message


def test_a_base_url_of_ones_own_serves_any_name() -> None:
    names = catalog(base_url="https://gateway.example")
    assert isinstance(names.resolve("bedrock/whatever").client, MessagesModel)
    assert isinstance(names.resolve("local").client, EmbeddedModel)


async def test_a_gateway_that_wants_no_key_is_called_without_one() -> None:
    gateway = "http://127.0.0.1:1"  # where nobody answers: the call got as far as the gateway
    assert (await fails(catalog(base_url=gateway), request("own-model"))).kind == "connection"


async def test_cards() -> None:
    names = catalog()
    assert (await names.card("claude-sonnet-4-5")).price is not None
    assert (await names.card("claude-sonnet-9")).price is None, "unknown is never 0"
    assert (await names.card("local")).small
    assert (await names.card(script_name(SCRIPT))).window >= 1_000_000


async def test_calls_go_to_the_client_of_their_model() -> None:
    reply, _ = await say(catalog(), request(script_name(SCRIPT)))
    assert reply.message.text == "hi"
    assert (await fails(catalog(), request("claude-sonnet-4-5"))).kind == "authentication"
    assert (await fails(catalog(), request("local"))).kind == "unavailable"


def test_plugins_are_made_once_and_serve_their_prefix() -> None:
    made: list[ScriptedModel] = []

    def plugin() -> ScriptedModel:
        made.append(scripted())
        return made[-1]

    names = catalog(plugins={"mine": plugin})
    first, second = (names.resolve(name).client for name in ("mine", "mine:large"))
    assert first is second
    assert isinstance(first, ForeignModel) and [first.client] == made


FACTORIES = {"a": "dict", "b": "list"}


def test_plugins_come_from_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str) -> list[EntryPoint]:
        return [EntryPoint(name, f"builtins:{made}", group) for name, made in FACTORIES.items()]

    monkeypatch.setattr("perdure.adapters.llm.registry.installed_plugins", points)
    assert sorted(model_plugins()) == ["a", "b"]
    assert model_plugins(frozenset({"b"})) == {"b": list}


@pytest.mark.parametrize(
    ("access", "name"),
    [
        ({}, "local"),
        ({"api_key": "k"}, "claude-sonnet-5-5"),
        ({"auth_token": "t"}, "claude-sonnet-5-5"),
        ({"api_key": "k", "default": "claude-opus-5"}, "claude-opus-5"),
    ],
)
def test_default_model(access: dict[str, Any], name: str) -> None:
    assert default_model(ModelAccess(**access), today=date(2026, 1, 1)) == name


@pytest.mark.parametrize(
    ("access", "lacking"),
    [
        (
            {},
            {
                "claude": "ANTHROPIC_API_KEY in the environment of the process that runs them",
                "local": "perdure",
            },
        ),
        ({"api_key": "k", "local_url": "http://127.0.0.1:1"}, {}),
        ({"base_url": "http://gateway"}, {"local": "perdure"}),
        ({"auth_token": "t"}, {"local": "perdure"}),
    ],
    ids=["nothing", "both", "a gateway may need no key", "a token"],
)
def test_what_cannot_be_called_is_told_with_a_cure(
    access: dict[str, Any], lacking: dict[str, str]
) -> None:
    found = lacking_models(ModelAccess(**access))
    assert {*found} & {"claude", "local"} == {*lacking}
    assert all(words in found[family] for family, words in lacking.items())


def test_access_comes_from_the_settings_and_hides_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    access = access_from(
        Settings.load(anthropic_api_key="sk-secret", model_url="http://127.0.0.1:8235")
    )
    assert access.api_key == "sk-secret"
    assert access.local_url == "http://127.0.0.1:8235"
    assert "sk-secret" not in repr(access)


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")


@pytest.mark.parametrize("name", KEYS)
def test_blanks_around_a_key_are_none_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "sk-secret\r\n")
    access = access_from(Settings.load())
    keys = (access.api_key, access.auth_token, access.openai.key, access.azure.key)
    assert keys[KEYS.index(name)] == "sk-secret"


@pytest.mark.parametrize("key", ["sk\N{EN DASH}secret", "sk-sec\nret", "sk-secr\u00e9t"])
def test_a_key_that_no_header_carries_is_told_without_it(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        with monkeypatch.context() as one:
            one.setenv(name, key)
            with pytest.raises(InvalidInput, match=name) as refused:
                access_from(Settings.load())
        assert key not in str(refused.value)
    monkeypatch.setenv("PERDURE_PROVIDERS", '{"b": {"url": "http://b/v1", "key_variable": "BOX"}}')
    monkeypatch.setenv("BOX", key)
    access = access_from(Settings.load())
    assert access.server_keys == {}
    assert access.lacking_keys["b"].startswith("BOX holds a sign that no key has")


LOADED = """
import asyncio, sys
from pathlib import Path
from perdure.adapters.settings.variables import Settings
from perdure.composition.parts import open_parts

async def loads(plugins: bool) -> bool:
    async with open_parts(Settings(home=Path(sys.argv[1])), plugins=plugins):
        return "anthropic" in sys.modules

print(asyncio.run(loads(False)), asyncio.run(loads(True)))
"""


@pytest.mark.long
@pytest.mark.parametrize("key", ["sk-test", ""], ids=["with a key", "without"])
def test_workers_import_the_sdk_before_the_first_call_waits_for_it(
    tmp_path: Path, key: str
) -> None:
    given = {name: value for name, value in os.environ.items() if "ANTHROPIC" not in name}
    printed = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, str(tmp_path)],
        env=given | ({"ANTHROPIC_API_KEY": key} if key else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.split()[-2:] == ["False", str(bool(key))]
