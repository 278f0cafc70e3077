"""A model whose failures tell no secret: what a provider says of them is kept for long."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from perdure.adapters.redacting import told
from perdure.domain.model_errors import ModelError
from perdure.domain.models import ModelCard, ModelReply, ModelRequest
from perdure.domain.ports import ModelClient, UsageSoFar, unheard


@dataclass(frozen=True, slots=True)
class CleanModel:
    """Any client, also one of a plugin, with its errors redacted."""

    client: ModelClient

    async def card(self, model: str) -> ModelCard:
        """Facts about the model."""
        with _without_secrets():
            return await self.client.card(model)

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens, where they are known."""
        with _without_secrets():
            return await self.client.count(request)

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = unheard,
    ) -> ModelReply:
        """Call the model, streaming."""
        with _without_secrets():
            return await self.client.call(request, on_text=on_text, on_answer=on_answer)


@contextmanager
def _without_secrets() -> Generator[None]:
    try:
        yield
    except ModelError as error:
        facts = error.facts
        words = {
            name: told(value)
            for name in ("message", "provider_code", "request_id")
            if (value := getattr(facts, name)) is not None
        }
        raise ModelError(facts.model_copy(update=words)) from error
