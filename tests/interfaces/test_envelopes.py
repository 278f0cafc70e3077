"""What the loops of a run may use of its budget, from the books of a journal that is played."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import pytest

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.budget.journal import AttemptRow, Journal
from perdure.domain.llm.usage import Usage
from perdure.domain.run.spec import STARTED_BY
from perdure.domain.run.status import StoredRun
from perdure.gateway.stored_status import first_status
from perdure.interfaces import loop_service
from perdure.interfaces.envelopes import share_of
from perdure.interfaces.loop_service import LoopService, _below

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPENT = AttemptRow(
    key="e/s1",
    attempt=1,
    root="above",
    run="above",
    phase="working",
    role="executor",
    iteration=1,
    model="m",
    state="answered",
    usage=Usage(output_tokens=10_000, cache_read_tokens=40_000),
    cost_usd=Decimal(0),
    started_at=NOW,
    seconds=1.0,
)


@pytest.mark.parametrize(("reads", "tokens"), [(False, 40_000), (True, 25_000)])
async def test_a_loop_gets_its_share_of_what_is_left_as_the_budget_counts(
    reads: bool, tokens: int
) -> None:
    limits = {"tokens": 100_000, "wrap_up": 0, "count_cache_reads": reads, "depth": 1}
    above = AgentSpec.model_validate({"kind": "agent", "goal": "g", "budget": limits})

    async def tree(**_: object) -> list[AttemptRow]:
        return [SPENT]

    journal = cast("Journal", SimpleNamespace(tree=tree))
    share = await share_of(journal, caller="above", above=above, held={})
    assert share.tokens == tokens
    loop = _below(AgentSpec(kind="agent", goal="g"), "above", above, share=share)
    assert (loop.budget.tokens, loop.budget.count_cache_reads) == (tokens, reads)


async def test_loops_of_a_run_are_found_behind_any_number_of_newer_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def row(run: str, *, after: int) -> StoredRun:
        at = NOW + timedelta(seconds=after)
        return StoredRun(
            id=run, kind="roles", goal="g", label=None, lifecycle="running", outcome=None,
            started_at=at, spec=run,
        )  # fmt: skip

    loops = [row(f"roles-{number}", after=number) for number in range(6, -2, -1)]
    rows = {one.id: one for one in (*loops, row("above", after=0))}
    own = {"roles-1", "roles-2", "roles--1"}

    async def run(name: str) -> StoredRun:
        return rows[name]

    async def find_runs(*, prefix: str, limit: int, offset: int = 0) -> list[StoredRun]:
        assert prefix == "roles-"
        return loops[offset : offset + limit]

    async def get(name: str) -> bytes:
        metadata = {STARTED_BY: "above"} if name in own else {}
        spec = {"kind": "agent", "goal": "g", "metadata": metadata}
        return AgentSpec.model_validate(spec).model_dump_json().encode()

    monkeypatch.setattr(loop_service, "READ_AT_ONCE", 2)
    service = service_over(records=SimpleNamespace(run=run, find_runs=find_runs), get=get)
    found = await service._started_by("above")
    assert [one.row.id for one in found] == ["roles-2", "roles-1"]


def service_over(*, records: object, get: object) -> LoopService:
    """The service over stand-ins, without what only a start needs."""
    fakes: dict[str, object] = {
        "gateway": None,
        "definitions_kept": None,
        "journal": None,
        "surroundings": None,
        "records": records,
        "blobs": SimpleNamespace(get=get),
    }
    return LoopService(**fakes, by="ada")  # pyright: ignore[reportArgumentType]


async def test_limits_that_people_set_since_count_for_a_caller_and_for_its_loops() -> None:
    spec = AgentSpec.model_validate(
        {"kind": "agent", "goal": "g", "budget": {"cost_usd": 2}, "metadata": {STARTED_BY: "above"}}
    )

    def row(run: str, limits: BudgetLimits) -> StoredRun:
        begun = first_status(spec, run, now=NOW)
        budget = begun.budget.model_copy(update={"limits": limits})
        status = begun.model_copy(update={"budget": budget}).model_dump_json()
        return StoredRun(
            id=run, kind="roles", goal="g", label=None, lifecycle="running", outcome=None,
            started_at=NOW, spec=run, status=status,
        )  # fmt: skip

    lowered = spec.budget.model_copy(update={"cost_usd": Decimal("0.50"), "tokens": 20_000})
    raised = spec.budget.model_copy(update={"cost_usd": Decimal(3)})
    rows = {"above": row("above", lowered), "roles-1": row("roles-1", raised)}

    async def run(name: str) -> StoredRun:
        return rows[name]

    async def find_runs(*, prefix: str, limit: int, offset: int = 0) -> list[StoredRun]:
        return [rows["roles-1"]][offset:]

    async def get(_: str) -> bytes:
        return spec.model_dump_json().encode()

    service = service_over(records=SimpleNamespace(run=run, find_runs=find_runs), get=get)
    assert (await service._spec("above")).budget == lowered
    assert (await service.held("above"))["roles-1"].cost_usd == Decimal(3)
