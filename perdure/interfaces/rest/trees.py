"""The runs below a run, as a tree."""

from collections.abc import Iterator
from decimal import Decimal

from fastapi import APIRouter

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.child_runs import ChildStatus
from perdure.interfaces.rest.callers import Reader, Site, known_run
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX
from perdure.interfaces.run_tree import Below, tree_below

MOST_LOOKS = 100
MOST_NODES = 500
router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["one loop"], route_class=BoundedRoute)


class TreeNode(FrozenModel):
    """One run below; `parent` is the run that started it, `depth` counts from 1."""

    parent: str
    depth: int
    run: ChildStatus


class RunTree(FrozenModel):
    """The runs below a run, each before those below it.

    `left_out`: how many had no place. `tools` and `skills` are what the run itself had made.
    """

    id: str
    kind: str
    goal: str
    lifecycle: str
    outcome: str | None = None
    tokens: int = 0
    cost_usd: Decimal | None = None
    cost_limit_usd: Decimal | None = None
    nodes: tuple[TreeNode, ...] = ()
    left_out: int = 0
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


@router.get("/tree")
async def tree(site: Site, _: Reader, run: str) -> RunTree:
    """The runs that work for a run, and for those, down to the last."""
    await known_run(site, run)
    status = await site.services.gateway.status(run)
    below = await tree_below(site.services.gateway, status, looks=MOST_LOOKS)
    nodes = tuple(_flat(below, parent=run, depth=1))
    made = {
        kind: tuple(
            dict.fromkeys(
                str(event.data.get(name)) for event in status.events if event.type == kind
            )
        )
        for kind, name in (("tool_created", "tool"), ("skill_saved", "name"))
    }
    return RunTree(
        id=run,
        kind=status.kind,
        goal=status.goal,
        lifecycle=status.lifecycle,
        outcome=status.outcome,
        tokens=status.budget.tokens,
        cost_usd=status.budget.cost_usd,
        cost_limit_usd=status.budget.limits.cost_usd,
        nodes=nodes[:MOST_NODES],
        left_out=max(0, len(nodes) - MOST_NODES),
        tools=made["tool_created"],
        skills=made["skill_saved"],
    )


def _flat(below: tuple[Below, ...], *, parent: str, depth: int) -> Iterator[TreeNode]:
    for node in below:
        yield TreeNode(parent=parent, depth=depth, run=node.run)
        yield from _flat(node.below, parent=node.run.id, depth=depth + 1)
