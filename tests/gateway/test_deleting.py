"""Deleting a tree of runs while somebody takes one of them up again."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.run.messages import Retry, Stop
from tests.gateway.tiny import Site, row, spec

Delete = Callable[[Site, str], Awaitable[None]]


async def delete(site: Site, run: str) -> None:
    await site.gateway.delete(run)


async def expire(site: Site, run: str) -> None:
    now = datetime.now(UTC)
    await site.gateway.expire(
        [
            Tombstone(run=one, root=run, kind="agent", started_at=now, at=now, why="expired")
            for one in (run, f"{run}.w1")
        ]
    )


@pytest.mark.parametrize("deleting", [delete, expire])
async def test_a_run_that_is_retried_while_its_tree_is_deleted_stays(
    site: Site, monkeypatch: pytest.MonkeyPatch, deleting: Delete
) -> None:
    await site.work()
    run = await site.gateway.start(spec("fail"))
    await site.gateway.verb(run, Stop())
    await site.gateway.result(run)
    await site.records.put_run(row(f"{run}.w1", parent=run))
    delete_run = site.records.delete_run

    async def drop_and_retry(dropped: str, *, stone: Tombstone | None = None) -> None:
        await delete_run(dropped, stone=stone)
        if dropped == f"{run}.w1":
            await site.gateway.verb(run, Retry())

    monkeypatch.setattr(site.records, "delete_run", drop_and_retry)
    with pytest.raises(NotAllowed, match=f"The run {run} has not ended"):
        await deleting(site, run)
    assert list(site.records.rows) == [run]
    assert (await site.gateway.status(run)).lifecycle == "running"
