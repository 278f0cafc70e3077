"""What a waiting command says on standard error: who is asked, and how to answer.

No event of a run tells of the questions of runs below it. A program without a terminal would wait
for them in silence, as long as nobody looks elsewhere.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.plain_text import printable
from perdure.interfaces.cli.background import beside
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.gates import how_to_answer
from perdure.interfaces.formatting import one_line
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.run_tree import gates_of_tree

LOOK_AGAIN_S = 5.0


@asynccontextmanager
async def questions_told(
    session: Session, gateway: RunGateway, run: str, *, own: bool
) -> AsyncGenerator[None]:
    """Tell each question of the runs below once, until the block ends.

    Args:
        session: has the standard error.
        gateway: of the runs.
        run: the one that is followed.
        own: whether also those of the run itself, which its events tell too.
    """
    async with beside(_tell_them(session, gateway, run, own=own)):
        yield


async def _tell_them(session: Session, gateway: RunGateway, run: str, *, own: bool) -> None:
    told = set[str]()
    while True:
        with suppress(PerdureError):  # what is out of order is told by what follows the run
            status = await gateway.status(run)
            if status.phase == "ended":
                return
            for asked in (await gates_of_tree(gateway, status)).gates:
                name = f"{asked.run}:{asked.gate.name}"
                # By its whole name: the same gate with other arguments is another question.
                if name not in told and (own or asked.run != run):
                    told.add(name)
                    prompt = one_line(asked.gate.prompt, 200)
                    how = how_to_answer(asked.gate, asked.run)
                    session.output.warn(printable(f"the run waits for a person: {prompt}  → {how}"))
        await asyncio.sleep(LOOK_AGAIN_S)
