"""A check of `doctor`: whether people are told, and what no channel took."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.run.notices import Notice, NoticeState
from perdure.interfaces.app_context import Connect
from perdure.interfaces.services import Check

NAME = "notices"


async def notices(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """How many notices wait to be tried again, and how many are dead."""
    with suppress(ServiceUnavailable):  # an absent server was told already
        async with connect(start=False, on_progress=lambda _: None) as services:
            counts = await services.notices.counts()
            waiting = await services.notices.notices("waiting", limit=1)
            yield _found(settings, counts, waiting)


def _found(
    settings: Settings, counts: Mapping[NoticeState, int], waiting: Sequence[Notice]
) -> Check:
    dead = counts.get("dead", 0)
    if dead:
        return Check(
            name=NAME,
            state="warning",
            found=f"{dead} that no channel took",
            cure="`perdure notices --state dead` says why; then `perdure notices resend --dead`.",
        )
    if waiting and waiting[0].problem:
        found = f"{counts.get('waiting', 0)} wait to be tried again: {waiting[0].problem}"
        return Check(name=NAME, state="warning", found=found, cure="See `perdure notices`.")
    channel = "a channel is set" if settings.tells_people else "no channel is set here"
    return Check(name=NAME, state="ok", found=f"{channel}, {counts.get('delivered', 0)} delivered")
