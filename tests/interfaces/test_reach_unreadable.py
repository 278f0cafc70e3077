"""A bound token's lists do not fail for a run of somebody else that cannot be read."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.domain.foundation.errors import NotFound, StoreAway, StoreError, Unreadable
from perdure.domain.installation.access import ApiToken
from perdure.domain.run.status import StoredRun
from perdure.interfaces.tokens import reaches

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def services(answer: bytes | Exception) -> Any:
    async def get(address: str) -> bytes:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run(name: str) -> StoredRun:
        return StoredRun(
            id=name, kind="roles", goal="x", label=None, lifecycle="running", outcome=None,
            started_at=NOW, spec="sha256:1",
        )  # fmt: skip

    return SimpleNamespace(records=SimpleNamespace(run=run), blobs=SimpleNamespace(get=get))


def token(**bound: Any) -> ApiToken:
    return ApiToken(id="a", name="n", scopes=("read",), digest="0" * 64, created_at=NOW, **bound)


@pytest.mark.parametrize("bound", [{"runs": ("mine",)}, {"folders": ("/a",)}])
@pytest.mark.parametrize(
    "answer",
    [NotFound("gone"), Unreadable("damaged"), StoreError("sealed"), b"{}", b"no JSON"],
)
async def test_such_a_run_is_out_of_reach(
    bound: dict[str, tuple[str, ...]], answer: bytes | Exception
) -> None:
    assert not await reaches(services(answer), token(**bound), "other")
    assert await reaches(services(answer), token(runs=("mine",)), "mine")


async def test_a_store_that_is_away_is_no_answer() -> None:
    with pytest.raises(StoreAway):
        await reaches(services(StoreAway("away")), token(folders=("/a",)), "other")
