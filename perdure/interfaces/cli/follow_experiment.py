"""Reports the progress of an experiment until it ends, on a terminal or in a pipe."""

import asyncio

from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.foundation.errors import StoreAway
from perdure.gateway.types import Waits
from perdure.interfaces.cli.session import Session
from perdure.interfaces.experiments.words import progress_words, resume_command, state_words
from perdure.interfaces.services import Services

POLL_S = 1.0
TOLD_EACH_S = 5.0
# As long as whoever follows a run waits for a server that is away.
STORE_BACK_WITHIN_S = Waits().outage


async def follow_experiment(session: Session, services: Services, id: str) -> ExperimentStatus:
    """Wait for the end and return the state; report changes at most every few seconds.

    Raises:
        StoreAway: the store was away for too long; the experiment goes on.
    """
    told_at, told = 0.0, ""
    clock = asyncio.get_running_loop().time
    with session.output.working("starting") as progress:
        while True:
            found = await _lasting_status(session, services, id)
            words = progress_words(found) + (f": {found.problem}" if found.problem else "")
            due = words != told and clock() - told_at >= TOLD_EACH_S
            # The end is told at once, however short ago the last progress was.
            if due or not found.open:
                progress(words)
                told, told_at = words, clock()
            if not found.open:
                session.output.note(state_words(found.state, found.reason))
                if found.cut_short:
                    session.output.note(f"Go on with: {resume_command(found)}")
                return found
            await asyncio.sleep(POLL_S)


async def _lasting_status(session: Session, services: Services, id: str) -> ExperimentStatus:
    """The state, as soon as the store tells it; raises `StoreAway` if that takes too long."""
    experiments, clock = services.experiments(), asyncio.get_running_loop().time
    lost: float | None = None
    while True:
        try:
            found = await experiments.status(id)
        except StoreAway as away:
            if lost is None:
                lost = clock()
                within = f"{STORE_BACK_WITHIN_S:.0f} s"
                session.output.warn(f"{away.message} It is awaited for up to {within}.")
            elif clock() - lost > STORE_BACK_WITHIN_S:
                raise StoreAway(
                    away.message, cure=f"It goes on: perdure experiment status {id}"
                ) from away
            await asyncio.sleep(POLL_S)
        else:
            if lost is not None:
                session.output.warn("The store answers again.")
            return found
