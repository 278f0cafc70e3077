"""The model calls of an iteration with prompt and reply, as far as the store has them."""

from datetime import datetime
from decimal import Decimal

from perdure.domain.budget.journal import AttemptRow, AttemptState
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import NotFound, StoreError
from perdure.domain.foundation.tolerance import read
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.requests import ModelReply, PromptRef
from perdure.domain.llm.transcript import Message, attachments_of
from perdure.domain.llm.usage import Usage
from perdure.domain.run.activity_messages import Frame
from perdure.interfaces.services import Services


class ModelCall(FrozenModel):
    """One attempt of a model call.

    `unconfirmed`: its figures are an estimate. `system`, `prompt` and `reply` are None where the
    store has none: an attempt that failed has no reply, and the prompts of older runs were not
    kept. A conversation without room is shortened before it is sent; `prompt` has it whole.
    """

    role: str
    phase: str
    model: str
    state: AttemptState
    attempt: int
    usage: Usage
    cost_usd: Decimal | None
    started_at: datetime
    seconds: float
    unconfirmed: bool = False
    stop_reason: str | None = None
    system: str | None = None
    prompt: tuple[Message, ...] | None = None
    reply: Message | None = None


async def calls_of(services: Services, run: str, iteration: int) -> list[AttemptRow]:
    """The attempts of an iteration, oldest first."""
    rows = await services.journal.rows(run)
    # A refused connection has a row too, and is no call.
    return [row for row in rows if row.iteration == iteration and row.sent]


async def read_model_calls(
    services: Services, run: str, rows: list[AttemptRow]
) -> tuple[ModelCall, ...]:
    """Attempts of a run with the prompts and replies that the store has."""
    replies = await services.journal.replies(run)
    return tuple([await _told(services, row, replies.get(row.key)) for row in rows])


async def attachment_shown(
    services: Services, run: str, iteration: int, ref: str
) -> Attachment | None:
    """The image or PDF with this address, if a model of the iteration was shown it."""
    rows = await calls_of(services, run, iteration)
    replies = await services.journal.replies(run)
    for row in rows:
        call = await _told(services, row, replies.get(row.key))
        for message in call.prompt or ():
            for block in message.blocks:
                found = next((one for one in attachments_of(block) if one.ref == ref), None)
                if found is not None:
                    return found
    return None


async def _told(services: Services, row: AttemptRow, address: str | None) -> ModelCall:
    call = ModelCall(
        role=row.role,
        phase=row.phase,
        model=row.model,
        state=row.state,
        attempt=row.attempt,
        usage=row.usage,
        cost_usd=row.cost_usd,
        started_at=row.started_at,
        seconds=row.seconds,
        unconfirmed=row.unconfirmed,
    )
    # A call has one reply, that of its answered attempt. Replies of other attempts are kept for
    # accounting only.
    if row.state != "answered" or address is None:
        return call
    try:
        reply = read(ModelReply, await services.blobs.get(address))
        return call.model_copy(
            update={
                "stop_reason": reply.stop_reason,
                "reply": reply.message,
                **await _asked(services, reply.prompt),
            }
        )
    except (NotFound, StoreError):
        return call


async def _asked(services: Services, prompt: PromptRef | None) -> dict[str, object]:
    if prompt is None:
        return {}
    system = prompt.system
    if system is None:
        system = read(Frame, await services.blobs.get(prompt.frame)).system
    return {"system": system, "prompt": await services.transcripts.load(prompt.head)}
