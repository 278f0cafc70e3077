"""Sending notices again, for all interfaces."""

from collections.abc import Sequence
from datetime import datetime

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.names import fitting
from perdure.domain.run.notices import Notice, sent_again
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.services import Services

ALL = 1_000_000


async def send_again(
    services: Services, ids: Sequence[str] | None, *, by: str, now: datetime
) -> list[Notice]:
    """Let workers send notices again, whatever their state; without ids, all dead ones.

    Those that were dropped are not among them: their gate is closed, or their run has ended.

    Raises:
        NotFound: there is no such notice.
        InvalidInput: a beginning fits several.
        NotAllowed: one is waiting to be sent already.
    """
    known = await services.notices().notices("dead" if ids is None else None, limit=ALL)
    chosen = known if ids is None else [_named(one, known) for one in ids]
    if waiting := [one.id for one in chosen if one.state == "waiting"]:
        raise NotAllowed(
            f"The notice {waiting[0]} waits for its next attempt already.",
            cure="`perdure notices` shows why the last one failed.",
        )
    trail = AuditTrail(services.audit, now=lambda: now)
    sent = [sent_again(one, now=now) for one in chosen]
    for notice in sent:
        await services.notices().settle(notice)
        about = f"notice {notice.id} of gate {notice.gate}"
        await trail.decided("notice_resent", about, by=by, run=notice.run)
    return sent


def _named(text: str, known: Sequence[Notice]) -> Notice:
    ids = set(fitting(text, [one.id for one in known]))
    found = [one for one in known if one.id in ids]
    if not found:
        cure = "`perdure notices` lists them."
        raise NotFound(f"There is no notice {text[:80]!r}.", cure=cure)
    if len(found) > 1:
        raise InvalidInput(f"{text!r} fits {len(found)} notices.", cure="Give more of the id.")
    return found[0]
