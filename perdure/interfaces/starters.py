"""Who starts a run is noted before the run begins, so that nobody approves what they asked for."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime

from perdure.domain.installation.access import ApiToken, IdempotencyRecord
from perdure.interfaces.services import Services

# Notes whose run of that id begins inside.
Noted = Callable[[str], AbstractAsyncContextManager[None]]


def noted(services: Services, token: ApiToken, *, at: datetime) -> Noted:
    """Notes runs as those of a token."""

    @asynccontextmanager
    async def start(run: str) -> AsyncGenerator[None]:
        # Before the run can begin: until it is noted, its own starter could approve its calls.
        await services.access.claim_start(IdempotencyRecord(run=run, token=token.id, at=at))
        try:
            yield
        except BaseException:
            await forget_failed(services, run)
            raise

    return start


async def forget_failed(services: Services, run: str) -> None:
    """Drop what is kept of a start if no run came of it."""
    row = await services.records.run(run)
    # A start without an answer may have begun all the same: its row is open, and the note stays.
    if row is None or (row.ended_at is not None and row.result is None):
        await services.access.forget_start(run)
