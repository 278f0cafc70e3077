"""Reports the progress of an experiment until it ends, on a terminal or in a pipe."""

import asyncio

from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.cli.session import Session
from perdure.interfaces.experiments.words import progress_words, resume_command, state_words
from perdure.interfaces.services import Services

POLL_S = 1.0
TOLD_EACH_S = 5.0


async def follow_experiment(session: Session, services: Services, id: str) -> ExperimentStatus:
    """Wait for the end and return the state; report changes at most every few seconds."""
    experiments, told_at, told = services.experiments(), 0.0, ""
    clock = asyncio.get_running_loop().time
    with session.output.working("starting") as progress:
        while True:
            found = await experiments.status(id)
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
