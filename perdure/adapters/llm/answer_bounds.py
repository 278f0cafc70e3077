"""A bound on the bytes of one answer: a server that never ends one would fill a worker's memory."""

from collections.abc import AsyncIterator

import httpx2

# Each token of a stream takes some 300 bytes, so this is more than 200,000 tokens.
MOST_BYTES = 64 << 20


class AnswerTooLong(httpx2.HTTPError):
    """A server sent more than one answer may have."""

    def __init__(self) -> None:
        super().__init__(f"it is longer than {MOST_BYTES >> 20} MiB")

    @staticmethod
    def behind(error: BaseException | None) -> "AnswerTooLong | None":
        """The one that an error was raised for, if any: clients wrap errors of the transport."""
        while error is not None and not isinstance(error, AnswerTooLong):
            error = error.__cause__
        return error


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for piece in self._inner:
            taken += len(piece)
            if taken > MOST_BYTES:
                raise AnswerTooLong
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        # Here nothing of the body has been read yet, whether it is streamed or read as a whole.
        response.stream = _Bounded(response.stream)


def bounded(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, which reads no answer beyond the bound."""
    hooks = client.event_hooks
    client.event_hooks = {**hooks, "response": [*hooks.get("response", []), _bound]}
    return client
