"""A model client that is not ours: whatever it raises is a failed call, never a lost worker."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from perdure.adapters.llm.call_failures import MESSAGE_CHARACTERS
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.llm.errors import ModelError, ModelErrorKind, ModelFacts
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import ModelClient, UsageSoFar, ignore_usage
from perdure.extending.foreign_code import contained, named

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ForeignModel:
    """The client of a plugin or a program (port `ModelClient`), held to what a client may do."""

    name: str
    client: ModelClient

    async def card(self, model: str) -> ModelProfile:
        with self._failures():
            # Apart from the await: a method that is no coroutine function raises here already.
            made = self.client.card(model)
        return await self._held(made, ModelProfile)

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens if the provider counts them free of charge, else None."""
        try:
            with self._failures():
                value: object = await self.client.count(request)
        except ModelError:
            # Counting only improves the estimate. The call itself shows whether the model is away.
            return None
        return value if isinstance(value, int) else None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Call the model, streaming; raises `ModelError`."""
        with self._failures():
            made = self.client.call(
                request,
                on_text=on_text,
                on_answer=lambda used: on_answer(usage_so_far(used)),
            )
        return await self._held(made, ModelReply)

    async def _held(self, made: Awaitable[R], kind: type[R]) -> R:
        with self._failures():
            value: object = await made
        if isinstance(value, kind):
            return value
        raise self._error(
            f"returned {type(value).__name__}, which is not a {kind.__name__}", "bad_reply"
        )

    @contextmanager
    def _failures(self) -> Generator[None]:
        try:
            with contained():
                yield
        except PerdureError:
            raise  # a `ModelError` says itself what it is; a store of ours may be away
        except Exception as error:
            raise self._error(f"failed with {named(error)}", _kind(error)) from error

    def _error(self, words: str, kind: ModelErrorKind) -> ModelError:
        message = f"The model client {self.name} {words}."[:MESSAGE_CHARACTERS]
        # Nobody knows what was sent, so the attempt is booked at its estimate.
        return ModelError(ModelFacts(kind=kind, message=message, confirmed=False))


def usage_so_far(given: UsageSoFar) -> UsageSoFar:
    """What a client gave to `on_answer`, which is asked much later, where no call of it is left.

    Raises:
        TypeError: it is no function.
    """
    if not callable(given):
        raise TypeError(
            f"on_answer takes a function that returns the usage so far, not {type(given).__name__}"
        )
    return given


def _kind(error: Exception) -> ModelErrorKind:
    match error:
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "connection"
        case _:
            return "server"  # it may heal, so it is tried as often as a provider that fails
