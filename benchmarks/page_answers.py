"""P1: how long after a person's answer the page of the run shows it, in a tab that stands open."""

import asyncio
import time
from statistics import median

import httpx2
import yaml

from benchmarks.page_visitors import LOOK_S, Served, token_of
from benchmarks.sides import PLENTY_S, PLENTY_TOKENS, PLENTY_USD
from benchmarks.site import Site
from perdure.domain.specs import RUN_SPEC

WRITE = {"path": "a.txt", "content": "x", "expected_hash": "absent"}
SCRIPT = {
    "replies": [{"tool_calls": [{"name": "fs.write", "arguments": WRITE}]}, {"text": "Done."}]
}
LATE_S = 60.0
SETTLED_S = 1.5
"""For so long nothing may come before an answer is sent, so that what comes next is its effect."""


async def measure_answers(
    site: Site, api: Served, person: httpx2.AsyncClient, *, answers: int
) -> float:
    """Approve one tool call after the other, each of a run of its own.

    Args:
        person: who watches the page of each run.

    Returns:
        The middle time from the answer being sent to a changed part of the page, in milliseconds.
    """
    script = await site.stores.blobs.put(yaml.safe_dump(SCRIPT).encode())
    bearer = {"authorization": f"Bearer {await token_of(site, 'read', 'answer')}"}
    times: list[float] = []
    async with httpx2.AsyncClient(
        base_url=api.url, timeout=60, trust_env=False, headers=bearer
    ) as other:
        for number in range(answers):
            run = f"p1-answered-{number}"
            await site.gateway.start(RUN_SPEC.validate_python(_asking(f"{script}")), run_id=run)
            times.append(await _answered(run, person, other))
            await site.gateway.result(run)
    return 1_000 * median(times)


def _asking(script: str) -> dict[str, object]:
    return {
        "kind": "agent",
        "goal": "Write a file.",
        "models": {"executor": f"scripted:{script}"},
        "tools": {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]},
        "budget": {"tokens": PLENTY_TOKENS, "cost_usd": PLENTY_USD, "active_time": PLENTY_S},
        "recall": False,
        "learn": False,
    }


async def _answered(run: str, person: httpx2.AsyncClient, other: httpx2.AsyncClient) -> float:
    """Seconds from the answer to the next changed part of the page."""
    gate = await _open_gate(run, other)
    came = asyncio.Queue[float]()
    following = asyncio.create_task(_follow(run, person, came))
    try:
        await _settled(came)
        sent = time.perf_counter()
        path = f"/api/v1/loops/{run}/gates/{gate}/answer"
        (await other.post(path, json={"choice": "approve"})).raise_for_status()
        async with asyncio.timeout(LATE_S):
            return await came.get() - sent
    finally:
        following.cancel()


async def _open_gate(run: str, other: httpx2.AsyncClient) -> str:
    while True:
        answer = await other.get(f"/api/v1/loops/{run}")
        if answer.is_success and (gates := answer.json()["gates"]):
            return str(gates[0]["name"])
        await asyncio.sleep(LOOK_S)


async def _follow(run: str, person: httpx2.AsyncClient, came: asyncio.Queue[float]) -> None:
    async with person.stream("GET", f"/runs/{run}/live") as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("id:"):
                came.put_nowait(time.perf_counter())


async def _settled(came: asyncio.Queue[float]) -> None:
    """Wait until the parts that the page gets at its opening have come."""
    while True:
        try:
            await asyncio.wait_for(came.get(), SETTLED_S)
        except TimeoutError:
            return
