"""Sending notices again, for all interfaces."""

from collections.abc import Iterable, Sequence
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
    chosen = known if ids is None else _each_once(_named(one, known) for one in ids)
    for seen in chosen:
        if seen.state == "waiting":
            raise _waits(seen)
    trail = AuditTrail(services.audit, now=lambda: now)
    sent: list[Notice] = []
    for seen in chosen:
        notice = sent_again(seen, now=now)
        # Somebody else may have it sent again at the same moment.
        if not await services.notices().renew(notice, seen=seen):
            if ids is None:
                continue
            raise _waits(seen)
        sent.append(notice)
        about = f"notice {notice.id} of gate {notice.gate}"
        await trail.note_decision("notice_resent", about, by=by, run=notice.run)
    return sent


def _each_once(found: Iterable[Notice]) -> list[Notice]:
    return list({one.id: one for one in found}.values())


def _waits(notice: Notice) -> NotAllowed:
    return NotAllowed(
        f"The notice {notice.id} waits for its next attempt already.",
        cure="`perdure notices` shows why the last one failed.",
    )


def _named(text: str, known: Sequence[Notice]) -> Notice:
    ids = set(fitting(text, [one.id for one in known]))
    found = [one for one in known if one.id in ids]
    if not found:
        cure = "`perdure notices` lists them."
        raise NotFound(f"There is no notice {text[:80]!r}.", cure=cure)
    if len(found) > 1:
        raise InvalidInput(f"{text!r} fits {len(found)} notices.", cure="Give more of the id.")
    return found[0]
