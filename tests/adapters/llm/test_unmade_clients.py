"""A client that cannot be made is a call that was not sent, whatever its libraries raise."""

from typing import Literal

import pytest

from perdure.adapters.llm.messages import MessagesModel
from perdure.adapters.llm.openai_dialects.client import OpenAIModel
from perdure.adapters.llm.openai_dialects.server import Server
from perdure.domain.ports import ModelClient
from tests.adapters.llm.dialects import card
from tests.adapters.llm.support import fails, request

Wire = Literal["messages", "responses", "chat"]
GOOD = "https://models.example/v1"


def made(dialect: Wire, *, cloud: str = "", base_url: str = GOOD) -> ModelClient:
    """A client with the network of the environment: nothing replaces its transport."""
    if dialect == "messages":
        return MessagesModel(
            base_url=base_url, api_key="sk-test", cards=lambda _: None, cloud=cloud
        )
    server = Server(
        title="Box", prefix="", base_url=base_url, api_key="sk-test", no_key="", dialect=dialect
    )
    return OpenAIModel(server, cards=card)


@pytest.mark.parametrize("dialect", ["messages", "responses", "chat"])
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "socksio"),
        ("HTTPS_PROXY", "ftp://127.0.0.1:1", "ftp"),
        ("HTTPS_PROXY", "http://proxy:port", "port"),
        ("SSL_CERT_FILE", "/nowhere/certificates.pem", "no such file"),
    ],
)
async def test_a_proxy_or_certificate_that_cannot_be_used(
    dialect: Wire, name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    client = made(dialect)
    facts = await fails(client, request())
    assert (facts.kind, facts.sent, facts.retryable) == ("unavailable", False, False)
    assert told in facts.message.lower()
    assert name in facts.message, "the cure names the variable"
    assert await client.count(request()) is None


async def test_an_address_that_cannot_be_used() -> None:
    client = made("messages", base_url="https://host:port/v1")
    facts = await fails(client, request())
    assert (facts.kind, facts.sent) == ("unavailable", False)
    assert "Invalid port" in facts.message
    assert await client.count(request()) is None


async def test_the_proxy_of_a_cloud_is_no_matter_of_its_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    facts = await fails(made("messages", cloud="foundry"), request())
    assert (facts.kind, facts.sent) == ("unavailable", False)
