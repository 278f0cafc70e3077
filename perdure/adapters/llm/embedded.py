"""The packaged small model behind the same Messages client as Claude.

Its server takes the Messages API with gaps that `embedded_transport` closes. It cannot decide by
itself whether to call a tool, so such calls are refused. `/v1/messages` honours temperature and
drops the seed; at temperature 0 equal prompts give equal text while no calls run side by side.
"""

from collections.abc import Callable

import httpx2

from perdure.adapters.llm.embedded_facts import CARD, LOCAL_NAME, MODEL_NAME
from perdure.adapters.llm.embedded_transport import EmbeddedTransport
from perdure.adapters.llm.error_kinds import refused
from perdure.adapters.llm.messages import MessagesModel
from perdure.adapters.llm.provider_features import EMBEDDED
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import UsageSoFar, unheard

NAMES = frozenset({LOCAL_NAME, MODEL_NAME})
NO_KEY_NEEDED = "local"


class EmbeddedModel:
    """`local`, served by `embedded_server`.

    Args:
        url: where the server answers, on loopback; None when nobody started it.
        inner: replaces the network in tests.
    """

    def __init__(self, *, url: str | None, inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self._client = _client(url, inner) if url else None

    async def card(self, model: str) -> ModelProfile:
        """The explicit card: price 0, a small window, no free choice of tools, no judging."""
        if model not in NAMES:
            raise refused(f"{model} is not the embedded model.", kind="unknown_model")
        return CARD

    async def count(self, request: ModelRequest) -> int | None:
        """The server's exact count, the framing of forced calls included; None when it is away."""
        return await self._client.count(_fitted(request)) if self._client else None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = unheard,
    ) -> ModelReply:
        """Make one streamed attempt; the reply is at most `max_output` tokens long."""
        if not self._client:
            raise refused(
                "The embedded model is not running. Start it with `perdure up`, "
                "or install it first with `perdure setup`.",
                kind="unavailable",
            )
        return await self._client.call(_fitted(request), on_text=on_text, on_answer=on_answer)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client:
            await self._client.aclose()


def _client(url: str, inner: httpx2.AsyncBaseTransport | None) -> MessagesModel:
    return MessagesModel(
        base_url=url,
        api_key=NO_KEY_NEEDED,
        cards=lambda _: CARD,
        dialect=EMBEDDED,
        transport=EmbeddedTransport(inner),
    )


def _fitted(request: ModelRequest) -> ModelRequest:
    # The engine does not stop a cancelled reply at once; a low cap bounds what that can cost.
    limit = min(request.max_tokens, CARD.max_output)
    return request.model_copy(update={"model": MODEL_NAME, "max_tokens": limit})
