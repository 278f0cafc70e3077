"""R44: two starts of one id, or with one idempotency key, at the same moment are one run."""

import asyncio

import pytest
from chosen import Chosen
from installation import Installation
from waiting import eventually

from perdure.domain.specs import RUN_SPEC

RACES = 100


async def _race(site: Installation, number: int, *, by: str, model: str) -> str:
    spec = RUN_SPEC.validate_python(
        {
            "kind": "agent",
            "goal": f"Race {number}",
            "models": {"executor": model},
            "tools": {"access": "minimal"},
            "learn": False,
            "metadata": {"label": f"race-{by}"},
        }
    )
    mark = f"race-{number}"
    chosen = Chosen(run_id=mark) if by == "id" else Chosen(idempotency_key=mark)
    first, second = await asyncio.gather(*(chosen.start(site.gateway, spec) for _ in range(2)))
    assert first == second
    return first


@pytest.mark.slow
@pytest.mark.parametrize("by", ["id", "key"])
async def test_r44_two_starts_at_once_are_one_execution(site: Installation, by: str) -> None:
    model = await site.script({"replies": [{"text": "done"}]})
    runs = [await _race(site, number, by=by, model=model) for number in range(RACES)]
    assert len(set(runs)) == RACES
    results = await asyncio.gather(*(site.gateway.result(run) for run in runs))
    assert {(one.outcome, one.spend.model_calls) for one in results} == {("accepted", 1)}

    async def one_execution_each() -> bool:
        query = f"PerdureLabel = 'race-{by}'"
        listed = [one.id async for one in site.client.list_workflows(query)]
        return sorted(listed) == sorted(runs)

    await eventually(one_execution_each)
