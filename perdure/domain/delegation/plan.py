"""The manager's task plan: a graph of subtasks, what can be worked on, and what is blocked.

A plan that does not hold together is refused whole, with every reason; the old one stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from perdure.domain.delegation.decisions import MOST_SUBTASKS, Envelope, Subtask
from perdure.domain.foundation.base import FrozenModel

Status = Literal["pending", "done", "failed"]
REPLANS_WITHOUT_PROGRESS = 1


class Node(FrozenModel):
    """A subtask of the plan as it stands; `note` says why it failed, or what came out."""

    id: str
    title: str
    depends_on: tuple[str, ...] = ()
    acceptance: str = ""
    status: Status = "pending"
    note: str = ""


class TaskPlan(FrozenModel):
    """The subtasks in the manager's order.

    `replans` counts the new plans in a row that no progress lies between; `moved`: work made
    progress since the newest one.
    """

    nodes: tuple[Node, ...] = ()
    replans: int = 0
    moved: bool = False

    @property
    def locked(self) -> bool:
        """Whether no new plan is taken until work makes progress."""
        return self.replans >= REPLANS_WITHOUT_PROGRESS and not self.moved

    def node(self, id: str | None) -> Node | None:
        return next((node for node in self.nodes if node.id == id), None)

    @property
    def actionable(self) -> tuple[Node, ...]:
        """The pending subtasks whose dependencies are all done."""
        done = {node.id for node in self.nodes if node.status == "done"}
        return tuple(
            node for node in self.nodes if node.status == "pending" and done >= {*node.depends_on}
        )

    @property
    def pending(self) -> tuple[Node, ...]:
        """Everything that is neither done nor failed, blocked subtasks included."""
        return tuple(node for node in self.nodes if node.status == "pending")

    @property
    def blocked(self) -> Mapping[str, str]:
        """The failed subtask behind which each blocked one waits, by id."""
        by_id = {node.id: node for node in self.nodes}
        found: dict[str, str] = {}
        # Dependencies first, so that all subtasks of a chain name the failure at its beginning.
        for id in TopologicalSorter(
            {node.id: node.depends_on for node in self.nodes}
        ).static_order():
            node = by_id[id]
            causes = [
                found.get(other, other)
                for other in node.depends_on
                if other in found or by_id[other].status == "failed"
            ]
            if causes and node.status == "pending":
                found[id] = causes[0]
        return found

    @property
    def workable(self) -> tuple[Node, ...]:
        """The pending subtasks that no failed one blocks, now or later."""
        blocked = self.blocked
        return tuple(node for node in self.pending if node.id not in blocked)

    def marked(self, id: str | None, status: Status, note: str = "") -> "TaskPlan":
        """The plan with another status of one subtask; an unknown id changes nothing."""
        return self.model_copy(
            update={
                "nodes": tuple(
                    node.model_copy(update={"status": status, "note": note})
                    if node.id == id
                    else node
                    for node in self.nodes
                )
            }
        )

    def progressed(self) -> "TaskPlan":
        """The plan after work that made progress: new plans may be made again."""
        return self.model_copy(update={"moved": True})


def plan_problems(subtasks: Sequence[Subtask]) -> tuple[str, ...]:
    """Every reason why subtasks do not make a plan: too many, unknown and duplicate ids, cycles."""
    ids = [subtask.id for subtask in subtasks]
    found = [f"At most {MOST_SUBTASKS} subtasks; there are {len(ids)}."] * (
        len(ids) > MOST_SUBTASKS
    )
    found += [
        f"The id {id} stands for {ids.count(id)} subtasks."
        for id in dict.fromkeys(ids)
        if ids.count(id) > 1
    ]
    for subtask in subtasks:
        unknown = [other for other in subtask.depends_on if other not in ids]
        known = ", ".join(dict.fromkeys(ids))
        found += [
            f"{subtask.id} depends on {other}, which is no subtask; there are {known}."
            for other in unknown
        ]
    cycle = _cycle(subtasks)
    if cycle:
        found.append(f"The subtasks wait for each other: {' → '.join(cycle)}.")
    return tuple(found)


def replanned(plan: TaskPlan, subtasks: Sequence[Subtask]) -> TaskPlan:
    """The new plan in place of the old one; subtasks with a known id keep what was done.

    Without progress in between one new plan is taken, then the plan is locked.
    """
    # The first plan replaces none, so it counts as no new one.
    again = bool(plan.nodes) and not plan.moved
    return TaskPlan(
        nodes=tuple(_node(subtask, plan.node(subtask.id)) for subtask in subtasks),
        replans=plan.replans + 1 if again else 0,
    )


def given_up(before: TaskPlan, after: TaskPlan) -> frozenset[str]:
    """The ids of subtasks that a new plan has no longer."""
    return frozenset(node.id for node in before.nodes) - {node.id for node in after.nodes}


def plan_view(plan: TaskPlan) -> tuple[str, ...]:
    """The plan as the manager sees it: a line for each subtask with its status and reason."""
    blocked = plan.blocked
    actionable = {node.id for node in plan.actionable}
    return tuple(_line(node, blocked, actionable) for node in plan.nodes)


def _node(subtask: Subtask, old: Node | None) -> Node:
    fresh = Node(
        id=subtask.id,
        title=subtask.title,
        depends_on=tuple(dict.fromkeys(subtask.depends_on)),
        acceptance=subtask.acceptance,
    )
    # What failed becomes pending again: the new plan is another try.
    if old is None or old.status != "done":
        return fresh
    return fresh.model_copy(update={"status": old.status, "note": old.note})


def _line(node: Node, blocked: Mapping[str, str], actionable: Iterable[str]) -> str:
    if node.id in blocked:
        status = f"blocked: {blocked[node.id]} failed"
    elif node.status == "failed":
        status = f"failed: {node.note}" if node.note else "failed"
    elif node.status == "done":
        status = f"done: {node.note}" if node.note else "done"
    elif node.id in actionable:
        status = "ready"
    else:
        status = f"waits for {', '.join(node.depends_on)}"
    measure = f" (done when: {node.acceptance})" if node.acceptance else ""
    return f"{node.id} [{status}] {node.title}{measure}"


def _cycle(subtasks: Sequence[Subtask]) -> tuple[str, ...]:
    try:
        TopologicalSorter({item.id: item.depends_on for item in subtasks}).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return tuple(reversed(path))
    return ()


def acceptance_of(envelope: Envelope, plan: TaskPlan) -> str:
    """What the result is measured by: the envelope's own words, else those of its subtask."""
    node = plan.node(envelope.subtask)
    return envelope.acceptance or (node.acceptance if node is not None else "")


def as_measured(envelopes: Sequence[Envelope], plan: TaskPlan) -> tuple[Envelope, ...]:
    """Envelopes with what their results are measured by, as their workers see them."""
    return tuple(
        item.model_copy(update={"acceptance": acceptance_of(item, plan)}) for item in envelopes
    )


def with_plan_ids(
    envelopes: Sequence[Envelope], plan: TaskPlan
) -> tuple[tuple[Envelope, ...], tuple[str, ...]]:
    """Envelopes with the ids of the plan's subtasks, and a note for each id that it does not have.

    Without a plan an id means nothing yet, and nothing is said of it.
    """
    ids = {node.id.casefold(): node.id for node in plan.nodes}
    named, notes = list[Envelope](), list[str]()
    for item in envelopes:
        known = item.subtask is None or plan.node(item.subtask) is not None
        same = None if known else ids.get((item.subtask or "").casefold())
        named.append(item if same is None else item.model_copy(update={"subtask": same}))
        if not known and same is None and ids:
            there = ", ".join(ids.values())
            notes.append(
                f"{item.worker}: there is no subtask {item.subtask}; there are {there}. Its work "
                "counts for none of them."
            )
    return tuple(named), tuple(notes)
