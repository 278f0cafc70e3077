"""Answers calls of its own and competes for shared ones; run four at once.

Usage: write_many.py HOME URL NAME COUNT
"""

import asyncio
import sys
from decimal import Decimal
from pathlib import Path

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.budget.journal import Attempt
from perdure.domain.llm.transcript import user_message
from perdure.domain.llm.usage import Usage


async def main(home: str, url: str, name: str, count: int) -> None:
    stores = await open_stores(Path(home), url)
    try:
        wins = [await write(stores, name, number) for number in range(count)]
    finally:
        await stores.close()
    print(sum(wins))


async def write(stores: Stores, name: str, number: int) -> bool:
    head = await stores.transcripts.append(None, [user_message(f"{name} {number}")])
    await answer(stores, f"{name}/{number}", reply=head.hash)
    await stores.records.put_record(name, number + 1, "{}")
    await stores.blobs.put(f"shared {number}".encode())
    return await answer(stores, f"shared/{number}", reply=name)


async def answer(stores: Stores, key: str, *, reply: str) -> bool:
    attempt = Attempt(
        key=key,
        attempt=1,
        execution=key.partition("/")[0],
        root="root",
        run="run",
        phase="execute",
        role="executor",
        iteration=1,
        model="m",
        request_hash="a" * 64,
        estimate=Usage(output_tokens=5),
        estimate_cost_usd=Decimal(0),
    )
    await stores.journal.begin(attempt)
    return await stores.journal.answer(
        attempt, usage=Usage(output_tokens=1), cost_usd=Decimal("0.01"), reply=reply, seconds=0.1
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
