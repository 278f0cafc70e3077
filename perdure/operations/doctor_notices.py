"""A check of `doctor`: whether notices reach people."""

from datetime import timedelta

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import stores_of
from perdure.interfaces.services import Check
from perdure.operations.doctor_checks import is_new

NAME = "notices"
LOOKED_AT = 1_000
# A worker with a channel takes what is due within seconds.
LATE = timedelta(minutes=5)


async def notices(settings: Settings) -> Check:
    """How many notices wait for another attempt, and how many were given up."""
    if is_new(settings):
        return Check(name=NAME, state="ok", found="none yet")
    async with stores_of(settings) as stores:
        counts = await stores.notices().counts()
        waiting = await stores.notices().notices("waiting", limit=LOOKED_AT)
        late = await stores.notices().due(now=utc_now() - LATE, limit=1)
    dead = counts.get("dead", 0)
    if dead:
        return Check(
            name=NAME,
            state="warning",
            found=f"{dead} that no channel took",
            cure="`perdure notices --state dead` says why; then `perdure notices resend --dead`.",
        )
    if late:
        found = (
            f"{counts.get('waiting', 0)} wait, the first since {late[0].due_at:%Y-%m-%d %H:%M} UTC"
        )
        cure = (
            "Start a worker that has a channel: PERDURE_NOTIFY_WEBHOOK or PERDURE_NOTIFY_COMMAND."
        )
        return Check(name=NAME, state="warning", found=found, cure=cure)
    if failed := [one.problem for one in waiting if one.problem]:
        found = f"{counts.get('waiting', 0)} wait to be tried again: {failed[0]}"
        return Check(name=NAME, state="warning", found=found, cure="See `perdure notices`.")
    channel = "a channel is set" if settings.tells_people else "no channel is set here"
    return Check(name=NAME, state="ok", found=f"{channel}, {counts.get('delivered', 0)} delivered")
