"""Begins one call, stores its reply, and is killed at a named point before the commit is over.

Usage: die.py HOME POINT, where POINT is `blob` (stored, no row yet) or `commit` (row not committed)
"""

import asyncio
import os
import signal
import sys
from decimal import Decimal
from pathlib import Path

from sqlalchemy import event

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.budget.journal import Attempt
from perdure.domain.llm.usage import Usage

ATTEMPT = Attempt(
    key="exec/1",
    attempt=1,
    execution="exec",
    root="root",
    run="run",
    phase="execute",
    role="executor",
    iteration=1,
    model="m",
    request_hash="a" * 64,
    estimate=Usage(output_tokens=50),
    estimate_cost_usd=Decimal("0.5"),
)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(home: str, point: str) -> None:
    stores = await open_stores(Path(home))
    await stores.journal.begin(ATTEMPT)
    ref = await stores.blobs.put_text("the reply")
    print(ref.hash, flush=True)
    if point == "blob":
        die()
    event.listen(stores.database.engines[-1], "commit", die)
    await stores.journal.answer(
        ATTEMPT, usage=Usage(), cost_usd=Decimal(0), reply=ref.hash, seconds=1
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
