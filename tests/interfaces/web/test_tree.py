"""The tree of a run: shares of the budget, and the names that lead back to a worker."""

import re
from decimal import Decimal

from page_visit import Visitor
from rest import Rest

from perdure.domain.run.child_runs import ChildStatus
from perdure.interfaces.rest.trees import MOST_NODES, RunTree, TreeNode
from perdure.interfaces.web.rendering import templates
from perdure.interfaces.web.tree.routes import rows_of


def node(parent: str, number: int, depth: int, **more: object) -> TreeNode:
    run = f"{parent}.w{number}-x"
    given = {"id": run, "name": f"x{number}", "kind": "agent", **more}
    return TreeNode(parent=parent, depth=depth, run=ChildStatus.model_validate(given))


def tree(*nodes: TreeNode) -> RunTree:
    return RunTree(
        id="r", kind="delegation", goal="g", lifecycle="running", nodes=nodes,
        cost_limit_usd=Decimal(2),
    )  # fmt: skip


def test_shares_are_of_the_run_above() -> None:
    upper = node("r", 1, 1, cost_limit_usd="1.00", cost_usd="0.25")
    lower = node("r.w1-x", 2, 2, cost_limit_usd="0.25", cost_usd="0.25")
    rows = rows_of(tree(upper, lower, node("r", 3, 1)))
    assert [(row.given, row.used) for row in rows] == [(0.5, 0.25), (0.25, 1.0), (None, None)]
    assert [row.above for row in rows] == [("x1",), ("x1", "x2"), ("x3",)]


def test_500_runs_are_shown_each_with_its_link() -> None:
    whole = tree(*(node("r", number, 1) for number in range(MOST_NODES)))
    shown = templates().get_template("tree/part.html").render(
        tree=whole, rows=rows_of(whole), stages=(), older=0
    )  # fmt: skip
    assert len(set(re.findall(r'href="/runs/([^"]+)"', shown))) == MOST_NODES


async def test_a_run_that_is_not_there_has_no_tree(rest: Rest, person: Visitor) -> None:
    answer = await rest.client.get("/api/v1/loops/nowhere/tree")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await person.client.get("/runs/nowhere/tree")).status_code == 404
