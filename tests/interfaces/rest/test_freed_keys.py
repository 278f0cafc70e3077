"""What an idempotency key means once its run is gone."""

from datetime import UTC, datetime, timedelta

import pytest
from rest import Rest

from perdure.domain.retention.rules import read_rules
from perdure.operations.gc import collect

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "say something", "learn": False, "recall": False}


async def post(rest: Rest, goal: str) -> tuple[int, dict[str, object]]:
    answer = await rest.client.post(
        LOOPS, json=TASK | {"goal": goal}, headers={"idempotency-key": "order 7"}
    )
    return answer.status_code, answer.json()


@pytest.mark.long
async def test_a_key_is_free_once_a_rule_has_dropped_its_run(rest: Rest) -> None:
    code, first = await post(rest, "say something")
    run = str(first["id"])
    assert code == 201
    await rest.ended(run)
    parts, later = rest.site.parts, datetime.now(UTC) + timedelta(days=8)
    dropped = await collect(
        parts.stores, rest.site.gateway, parts.workspaces,
        now=later, dry_run=False, rules=read_rules("7d"),
    )  # fmt: skip
    assert (dropped.runs, dropped.left) == (1, 0)
    code, other = await post(rest, "say something else")
    assert (code, other["replayed"]) == (201, False)
    assert other["id"] != run
    assert (await rest.ended(str(other["id"])))["outcome"] == "accepted"
    assert (await post(rest, "say something"))[0] == 409
