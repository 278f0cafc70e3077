"""Sending one verb to one run in a caller's name."""

import uuid
from typing import Annotated

from fastapi import Header

from perdure.domain.foundation.errors import NotAllowed, PerdureError
from perdure.domain.run.messages import NAME_CHARACTERS, AnyMessage, Receipt
from perdure.interfaces.rest.auth import Caller, known_run
from perdure.interfaces.rest.error_responses import WrongState
from perdure.interfaces.rest.settings import ApiSite

Key = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=NAME_CHARACTERS - 32,
        description="A repeated one has one effect.",
    ),
]


async def steer(
    site: ApiSite, caller: Caller, run: str, message: AnyMessage, key: str | None
) -> Receipt:
    """Send one verb in the caller's name; a refusal names the state."""
    await known_run(site, run)
    # The key of one token says nothing about another's.
    request = f"{caller.token.id}:{key}" if key else uuid.uuid4().hex
    sent = message.model_copy(update={"by": caller.name, "request_id": request})
    try:
        return await site.services.gateway.verb(run, sent)
    except NotAllowed as error:
        raise WrongState(error.message, cure=error.cure, state=await _state(site, run)) from error


async def _state(site: ApiSite, run: str) -> str | None:
    try:
        return (await site.services.gateway.status(run)).lifecycle
    except PerdureError:
        return None
