"""A check of `doctor`: whether notices reach people."""

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.open_stores import stores_of
from perdure.interfaces.services import Check
from perdure.operations.doctor_checks import is_new

NAME = "notices"


async def notices(settings: Settings) -> Check:
    """How many notices wait for another attempt, and how many were given up."""
    if is_new(settings):
        return Check(name=NAME, state="ok", found="none yet")
    async with stores_of(settings) as stores:
        counts = await stores.notices().counts()
        waiting = await stores.notices().notices("waiting", limit=1)
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
