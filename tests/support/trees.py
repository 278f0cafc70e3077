"""Trees of runs: managers below managers, and who of them is still at work."""

from delegating import Reply, completes, delegates, works
from installation import Installation
from temporalio.client import WorkflowExecutionStatus
from waiting import eventually

SLOW_S = 300.0
MANAGERS = ("m1", "m2", "m3")
# Far below the slow replies that nobody may wait for, far above what a busy machine needs.
ALL_ENDED_S = 60.0
DEAR = {"input_per_million": 0.1, "output_per_million": 160.0}


def sub(name: str, *workers: str) -> tuple[Reply, ...]:
    """The replies of a sub-manager that has its own workers."""
    return (
        delegates(*workers, by=name),
        *(works(worker) for worker in workers),
        completes(f"{name} did it", by=name),
    )


def manages(*names: str) -> Reply:
    return delegates(*names, sub_manager=True)


async def children_of(site: Installation, run: str) -> dict[str, WorkflowExecutionStatus | None]:
    """Every execution below a run, by id."""
    found = site.client.list_workflows(f"RootWorkflowId = '{run}'")
    return {item.id: item.status async for item in found if item.id != run}


async def running(site: Installation, run: str, at_least: int) -> dict[str, object]:
    """Wait until so many runs below this one are open, and return them."""
    open_ones: dict[str, object] = {}

    async def enough() -> bool:
        nonlocal open_ones
        found = await children_of(site, run)
        open_ones = {k: v for k, v in found.items() if v == WorkflowExecutionStatus.RUNNING}
        return len(open_ones) >= at_least

    await eventually(enough)
    return open_ones


async def called(site: Installation, root: str, run: str) -> None:
    """Wait until a model call of a run is under way."""

    async def billed() -> bool:
        rows = await site.parts.stores.journal.tree(root=root, run=run)
        return any(row.state == "started" for row in rows)

    await eventually(billed)


async def nobody_runs(site: Installation, run: str, *, seconds: float = 30.0) -> None:
    async def none() -> bool:
        found = await children_of(site, run)
        return WorkflowExecutionStatus.RUNNING not in found.values()

    await eventually(none, seconds=seconds)
