"""The providers besides Claude's own API, by the prefix of their models' names.

Their clients are extras and take time to import, so they are imported at the first call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from perdure.adapters.llm.access import ModelAccess, families, lacking_key
from perdure.adapters.llm.clouds import CLOUDS
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.model_names import ModelName, lacking_package
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import COMPATIBLE
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import ModelClient, UsageSoFar, ignore_usage

if TYPE_CHECKING:
    from perdure.adapters.llm.messages import MessagesModel
    from perdure.adapters.llm.openai_dialects.client import OpenAIModel
    from perdure.adapters.llm.openai_dialects.server import Feature, Server

OPENAI_URL = "https://api.openai.com/v1"
AZURE_PATH = "/openai/v1"
# Sent to servers that need no key, because the client requires one.
NO_KEY_NEEDED = "none"


@dataclass(slots=True)
class LazyModel:
    """A client that is made at its first call."""

    make: "Callable[[], OpenAIModel | MessagesModel]"
    cards: Callable[[str], ModelProfile]
    made: "OpenAIModel | MessagesModel | None" = field(default=None)

    async def card(self, model: str) -> ModelProfile:
        # Not from the client: a model has a price even where its package or key is missing.
        return self.cards(model)

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens if the provider counts them, else None."""
        try:
            return await self.client().count(request)
        # The call that follows reports what is missing; counting must not fail it.
        except ModelError:
            return None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        return await self.client().call(request, on_text=on_text, on_answer=on_answer)

    def client(self) -> "OpenAIModel | MessagesModel":
        """The client, made at the first call.

        Raises:
            ModelError: kind `unavailable`, nothing sent: its package is not installed.
        """
        if self.made is None:
            self.made = self.make()
        return self.made

    async def aclose(self) -> None:
        """Close the connections."""
        if self.made is not None:
            await self.made.aclose()
            self.made = None


class ProviderModels:
    """The clients of all providers that an installation can name."""

    def __init__(self, access: ModelAccess, cards: Callable[[str], ModelProfile]) -> None:
        self._access = access
        self._cards = cards
        self._clients: dict[str, LazyModel] = {}

    def client(self, named: ModelName, model: str) -> ModelClient:
        """The client that serves a model.

        Raises:
            InvalidInput: the settings have no such server, or the name has no model.
        """
        if named.provider == COMPATIBLE:
            self._check(named, model)
        elif not named.model:
            raise InvalidInput(f"{model} names no model.", cure=f"Name it: {model}NAME.")
        # One server may need two clients: `compat:NAME` sends the model of its entry,
        # `compat:NAME/MODEL` sends MODEL.
        key = model if named.provider == COMPATIBLE else named.provider
        if key not in self._clients:
            self._clients[key] = LazyModel(lambda: self._made(named), self._cards)
        return self._clients[key]

    def load(self) -> None:
        """Import the clients that can be called here, so that no call has to wait for an import."""
        here = {name.partition(":")[0] for name in self.names()}
        if here & {"openai", "azure", COMPATIBLE}:
            import_module("perdure.adapters.llm.openai_dialects.client")
        # Bedrock needs no variable of ours, so nothing tells whether it is used: it is not loaded.
        if here & CLOUDS.keys() - {"bedrock"}:
            import_module("perdure.adapters.llm.messages")

    def names(self) -> list[str]:
        """The families that can be called here."""
        return [
            family
            for family in families(self._access)
            if not (lacking_package(family) or lacking_key(self._access, family))
        ]

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()

    def _check(self, named: ModelName, model: str) -> None:
        servers = self._access.servers
        if named.server not in servers:
            hint = did_you_mean(named.server, servers)
            known = ", ".join(sorted(servers)) or "none"
            raise InvalidInput(
                f"{model}: PERDURE_PROVIDERS has no server {named.server!r}; it has {known}.{hint}",
                cure="Add it there, with `url` and `key_variable`.",
            )
        if not (named.model or servers[named.server].model):
            raise InvalidInput(
                f"{model} names no model, and its entry in PERDURE_PROVIDERS has none.",
                cure=f"Name it: {COMPATIBLE}:{named.server}/MODEL.",
            )

    def _made(self, named: ModelName) -> "OpenAIModel | MessagesModel":
        if missing := lacking_package(named.provider):
            raise unsent_error(
                f"The client of {named.provider}: is missing. {missing}", kind="unavailable"
            )
        if named.provider in CLOUDS:
            return self._of_cloud(named.provider)
        from perdure.adapters.llm.openai_dialects.client import OpenAIModel

        return OpenAIModel(self._server(named), cards=self._cards)

    def _of_cloud(self, provider: str) -> "MessagesModel":
        from perdure.adapters.llm.messages import MessagesModel

        if missing := lacking_key(self._access, provider):
            title = CLOUDS[provider].title
            raise unsent_error(
                f"{title} cannot be called, so nothing was sent. {missing} {AT_WORKER}",
                kind="authentication",
            )
        return MessagesModel(
            base_url="", api_key=None, cards=self._cards, prefix=f"{provider}:", cloud=provider
        )

    def _server(self, named: ModelName) -> "Server":
        from perdure.adapters.llm.openai_dialects.server import Server

        access, provider = self._access, named.provider
        if provider == COMPATIBLE:
            return self._compatible(named)
        if provider == "azure":
            title, key = "Azure OpenAI", access.azure.key
            url = f"{(access.azure.url or '').rstrip('/')}{AZURE_PATH}"
            key = key if access.azure.url else None
        else:
            title, key, url = "OpenAI", access.openai.key, access.openai.url or OPENAI_URL
        return Server(
            title=title,
            prefix=f"{provider}:",
            base_url=url,
            api_key=key,
            no_key=f"{title} cannot be called, so nothing was sent. "
            f"{lacking_key(access, provider)} {AT_WORKER}",
            dialect="responses",
            key="AZURE_OPENAI_API_KEY" if provider == "azure" else "OPENAI_API_KEY",
        )

    def _compatible(self, named: ModelName) -> "Server":
        from perdure.adapters.llm.openai_dialects.server import Server

        access, name = self._access, named.server
        entry = access.servers[name]
        # None: nobody has said, so that it is learned from a refusal.
        told: dict[Feature, bool | None] = {
            "json_schema": entry.json_schema,
            "streaming": entry.streaming,
        }
        return Server(
            title=f"The server {name}",
            prefix=f"{COMPATIBLE}:{name}/",
            model=None if named.model else entry.model,
            base_url=entry.url,
            api_key=access.server_keys.get(name) if entry.key_reference else NO_KEY_NEEDED,
            no_key=f"The server {name} of PERDURE_PROVIDERS cannot be called, so nothing was sent. "
            f"{lacking_key(access, f'{COMPATIBLE}:{name}')} {AT_WORKER}",
            dialect="chat",
            key=entry.key_variable or f"`key` of {name} in PERDURE_PROVIDERS",
            lacks=frozenset(feature for feature, has in told.items() if has is False),
            has=frozenset(feature for feature, has in told.items() if has),
        )


AT_WORKER = "The process that runs the workers needs it; start that again."
