"""Finds the client that serves a model, by the model's name.

`claude-…`, `anthropic:…` and names in the price sheet go to the Messages API, `openai:…` and
`azure:…` to the Responses API, `compat:NAME/…` to a server of the settings, `local` to the embedded
model, `scripted:ADDRESS` to the scripted one, `PLUGIN` or `PLUGIN:…` to a plugin. If the operator
has set a base URL, every other name goes to the Messages API there.
"""

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, cast

from perdure.adapters.llm.access import PLUGIN_GROUP, ModelAccess, default_model
from perdure.adapters.llm.embedded_facts import LOCAL_NAME, MODEL_NAME
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.foreign_model import ForeignModel
from perdure.adapters.llm.model_names import model_name
from perdure.adapters.llm.pricing import ModelPrices
from perdure.adapters.llm.providers import NO_KEY_NEEDED, ProviderModels
from perdure.adapters.llm.scripted import PREFIX as SCRIPTED
from perdure.adapters.llm.scripted import ScriptedModel
from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.plugin_modules import broken_plugin, installed_plugins
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.llm.whole_characters import whole_reply, whole_text
from perdure.domain.ports import BlobStore, ModelClient, RecordStore, UsageSoFar, ignore_usage
from perdure.domain.run.bookkeeping_messages import ServedModels
from perdure.extending.foreign_code import contained

if TYPE_CHECKING:
    from perdure.adapters.llm.embedded_client import EmbeddedModel
    from perdure.adapters.llm.messages import MessagesModel

CLAUDE_URL = "https://api.anthropic.com"
CLAUDE_NAME = "claude-"
ANTHROPIC = "anthropic:"
_ADDRESS = re.compile(r"(sha256|hmac):[0-9a-f]{64}")
_WORDS = re.compile(r"[a-z]+")

ModelPlugin = Callable[[], ModelClient]


@dataclass(frozen=True, slots=True)
class CleanModel:
    """Any client, including a plugin's: no secrets in its errors, whole characters in replies."""

    client: ModelClient

    async def card(self, model: str) -> ModelProfile:
        with _without_secrets():
            return await self.client.card(model)

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens if the provider counts them, else None."""
        with _without_secrets():
            return await self.client.count(request)

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        with _without_secrets():
            return whole_reply(
                await self.client.call(request, on_text=on_text, on_answer=on_answer)
            )


@contextmanager
def _without_secrets() -> Generator[None]:
    try:
        yield
    except ModelError as error:
        facts = error.facts
        words = {
            name: whole_text(without_secrets(value))
            # All three are the server's own words, and may repeat the key.
            for name in ("message", "provider_code", "request_id")
            if (value := getattr(facts, name)) is not None
        }
        raise ModelError(facts.model_copy(update=words)) from error


def model_plugins(allowed: frozenset[str] | None = None) -> Mapping[str, ModelPlugin]:
    """Installed plugins of the group `perdure.models`: name to a factory without arguments.

    Args:
        allowed: the names to load; None loads all.

    Raises:
        InvalidInput: one cannot be imported, or is no factory.
    """
    return {
        point.name: _factory(point)
        for point in installed_plugins(group=PLUGIN_GROUP)
        if allowed is None or point.name in allowed
    }


def _factory(point: EntryPoint) -> ModelPlugin:
    origin = f"{point.name} = {point.value}"
    try:
        with contained():
            loaded: object = point.load()
    except Exception as error:
        raise broken_plugin(origin, error) from error
    if callable(loaded):
        return cast("ModelPlugin", loaded)
    raise InvalidInput(
        f"The plugin {origin} holds {type(loaded).__name__}, which makes no model client.",
        cure="Point it at the class of the client, or at a function without parameters that "
        "returns one.",
    )


class ModelCatalog:
    """A `ModelClient` for all models: the name of the model decides which client is called.

    Args:
        access: keys and addresses of providers.
        blobs: holds the scripts of the scripted model.
        records: holds how far each run has played its script.
        prices: profiles of known models.
        plugins: factories of further clients, by name; each is called at its first use.
        brought: clients that the embedding program passed in, by name.
    """

    def __init__(
        self,
        *,
        access: ModelAccess,
        blobs: BlobStore,
        records: RecordStore,
        prices: ModelPrices,
        plugins: Mapping[str, ModelPlugin] | None = None,
        brought: Mapping[str, ModelClient] | None = None,
    ) -> None:
        self._prices = prices
        self._open_world = access.base_url is not None
        self._access = access
        # Those that were made: to close the properties below would import an SDK first.
        self._open: list[MessagesModel | EmbeddedModel] = []
        self._providers = ProviderModels(access, prices.sure_card)
        self._scripted = ScriptedModel(blobs, records)
        self._factories = dict(plugins or {})
        self._plugins: dict[str, ModelClient] = {
            name: ForeignModel(name, client) for name, client in (brought or {}).items()
        }

    # The SDK takes a second to import, which commands that call no model should not pay.
    @cached_property
    def _messages(self) -> "MessagesModel":
        from perdure.adapters.llm.messages import MessagesModel

        access = self._access
        # A gateway may want no key, and says so itself if it wants one.
        keyless = access.base_url is not None and not access.auth_token
        made = MessagesModel(
            base_url=access.base_url or CLAUDE_URL,
            api_key=access.api_key or (NO_KEY_NEEDED if keyless else None),
            auth_token=access.auth_token,
            cards=self._prices.card,
            prefix=ANTHROPIC,
        )
        self._open.append(made)
        return made

    @cached_property
    def _embedded(self) -> "EmbeddedModel":
        from perdure.adapters.llm.embedded_client import EmbeddedModel

        made = EmbeddedModel(url=self._access.local_url)
        self._open.append(made)
        return made

    def load(self) -> None:
        """Import the libraries of the models that are served here.

        An import blocks the event loop for a second, and on a busy machine for longer than the
        heartbeat timeout. In the first call of a worker it would make Temporal give that call up.
        """
        access = self._access
        if access.api_key or access.auth_token or access.base_url:
            _ = self._messages
        if access.local_url:
            _ = self._embedded
        self._providers.load()

    def resolve(self, model: str) -> CleanModel:
        """The client that serves a model; its errors hold no secrets.

        Raises:
            InvalidInput: no client serves a model of that name; the nearest known name is given.
        """
        return CleanModel(self._client(model))

    def _client(self, model: str) -> ModelClient:
        if model in {LOCAL_NAME, MODEL_NAME}:
            return self._embedded
        if model.startswith(SCRIPTED):
            return self._checked_script(model)
        # Before the price sheet: an entry there would send a plugin's model to the Messages API.
        if plugin := self._plugin(model):
            return plugin
        named = model_name(model)
        if model.startswith(ANTHROPIC):
            return self._messages
        if named.provider:
            return self._providers.client(named, model)
        if self._prices.card(model) or self._open_world or self._is_new_version(model):
            return self._messages
        raise self._unknown(model)

    async def card(self, model: str) -> ModelProfile:
        """Facts about the model; raises `ModelError` kind `unknown_model`."""
        return await self._resolved(model).card(model)

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens if the provider counts them free of charge, else None."""
        return await self._resolved(request.model).count(request)

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        client = self._resolved(request.model)
        return await client.call(request, on_text=on_text, on_answer=on_answer)

    def served(self) -> ServedModels:
        """The models of this worker, for those who submit runs."""
        own = {*self._prices.own_names(), *self._further, *self._providers.names()}
        return ServedModels(
            default=default_model(self._access), names=tuple(sorted(own)), any=self._open_world
        )

    async def aclose(self) -> None:
        """Close the connections of the built-in clients."""
        for client in self._open:
            await client.aclose()
        await self._providers.aclose()

    def _resolved(self, model: str) -> ModelClient:
        try:
            return self.resolve(model)
        # As a client, it may raise nothing but `ModelError`.
        except InvalidInput as error:
            raise unsent_error(str(error), kind="unknown_model") from error

    def _checked_script(self, model: str) -> ModelClient:
        # Anything but an address is a file, which only the submitting command can read.
        address = model.removeprefix(SCRIPTED).partition("#")[0]
        if _ADDRESS.fullmatch(address):
            return self._scripted
        raise InvalidInput(
            f"{model} names a script by its file.",
            cure="Submit it with `perdure run`, which reads the file and sends its content.",
        )

    def _plugin(self, model: str) -> ModelClient | None:
        name = model.partition(":")[0]
        if name in self._factories and name not in self._plugins:
            try:
                with contained():
                    made = self._factories[name]()
            except Exception as error:
                raise broken_plugin(name, error) from error
            self._plugins[name] = ForeignModel(name, made)
        return self._plugins.get(name)

    @property
    def _further(self) -> frozenset[str]:
        """The names of all plugins and passed-in clients."""
        return frozenset({*self._factories, *self._plugins})

    def _is_new_version(self, model: str) -> bool:
        """Whether all words of the name are known, so that it is a new version rather than a typo.

        Such a model has no price; a run's budget decides whether it may be called.
        """
        known = {word for name in self._prices.known_names() for word in _WORDS.findall(name)}
        return model.startswith(CLAUDE_NAME) and set(_WORDS.findall(model)) <= known

    def _unknown(self, model: str) -> InvalidInput:
        names = [*self._prices.known_names(), *self._further]
        hint = did_you_mean(model, names)
        return InvalidInput(
            f"No model is called {model}.{hint}",
            cure="Name a Claude model, one with its provider in front (`openai:…`, "
            "`compat:NAME/…`), `local` for the embedded model, or add it to the price sheet.",
        )
