"""The port that keeps what judges replied, so that one question is not paid for twice."""

from typing import Protocol


class VerdictStore(Protocol):
    """Usable replies by the hash of everything that the judge was shown."""

    async def verdict(self, key: str) -> str | None:
        """What a judge replied to the question with this key, or None."""
        ...

    async def put_verdict(self, key: str, reply: str) -> None:
        """Keep a usable reply; the first one for a key stays."""
        ...
