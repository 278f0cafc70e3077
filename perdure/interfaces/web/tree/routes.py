"""The tree of a run: who works for whom, with what share of the budget, and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.rest.trees import RunTree, TreeNode
from perdure.interfaces.web.api_calls import at
from perdure.interfaces.web.run.reading import read_records
from perdure.interfaces.web.visit import Here

ITERATIONS = 50
router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """A run of the tree.

    Args:
        node: the run.
        given: its share of the limit of the run above, from 0 to 1; None without a limit.
        used: the spent share of its own limit.
        above: the names of the runs from the top down to it.
    """

    node: TreeNode
    given: float | None
    used: float | None
    above: tuple[str, ...]


def rows_of(tree: RunTree) -> tuple[Row, ...]:
    """The runs of a tree with their shares; each comes after the run above it."""
    limits = {tree.id: tree.cost_limit_usd}
    names: dict[str, tuple[str, ...]] = {tree.id: ()}
    rows: list[Row] = []
    for node in tree.nodes:
        run = node.run
        limits[run.id] = run.cost_limit_usd
        names[run.id] = (*names.get(node.parent, ()), run.name)
        rows.append(
            Row(
                node,
                given=_share(run.cost_limit_usd, limits.get(node.parent)),
                used=_share(run.cost_usd, run.cost_limit_usd),
                above=names[run.id],
            )
        )
    return tuple(rows)


def staged(records: Sequence[IterationRecord]) -> tuple[IterationRecord, ...]:
    """The iterations with stages, newest first."""
    return tuple(record for record in reversed(records) if record.stages)


@router.get("/runs/{run}/tree")
async def show(visit: Here, run: str) -> Response:
    """Show the runs below a run; a script gets only the changing part."""
    tree = await visit.api.get(f"{at('loops', run)}/tree", RunTree)
    stages = staged(await read_records(visit.api, run))
    return visit.page(
        "tree/part.html" if visit.wants_part else "tree/tree.html",
        tree=tree,
        rows=rows_of(tree),
        stages=stages[:ITERATIONS],
        older=max(0, len(stages) - ITERATIONS),
    )


def _share(part: Decimal | None, whole: Decimal | None) -> float | None:
    return float(part / whole) if part is not None and whole else None
