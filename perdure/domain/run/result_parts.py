"""Parts of a result that all loops make in the same way."""

from collections.abc import Sequence

from perdure.domain.evaluation.outcomes import Outcome, with_nothing_to_show
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.run.bookkeeping_messages import SnapshotReport
from perdure.domain.run.control import Control
from perdure.domain.run.result import Artifact, Exhausted


def exhausted_by(outcome: Outcome, reason: str, detail: str) -> Exhausted | None:
    """The limit that ended a run, if one did."""
    if outcome in {"out_of_budget", "deadline"} or reason == "max_iterations":
        return Exhausted(dimension=reason, text=detail or reason)
    return None


def unadopted(control: Control) -> tuple[str, ...]:
    """What people amended and no step adopted, in words."""
    goal = () if control.goal is None else (control.goal,)
    if control.rubric is None:
        return goal
    names = (item.name for item in Rubric.model_validate(control.rubric).dimensions)
    return (*goal, f"rubric: {', '.join(names)}")


def tree_artifacts(tree: SnapshotReport | None, *, kept: str | None = None) -> tuple[Artifact, ...]:
    """The files of a run and their patch.

    Args:
        tree: the last snapshot; None where the run has no workspace.
        kept: the tree of the version that is returned, where it has one of its own.
    """
    if tree is None:
        return ()
    files = Artifact(kind="tree", ref=kept or tree.tree.hash)
    if tree.patch is None:
        return (files,)
    note = "take over with `perdure apply`"
    return (files, Artifact(kind="patch", ref=tree.patch.hash, note=note))


def told_of_what_is_there(
    explanation: str, *, output: str | None, artifacts: Sequence[Artifact]
) -> str:
    """An explanation, which speaks of no result where there is neither a text nor a change.

    Args:
        explanation: why the run ended.
        output: the address of the text.
        artifacts: of the run. The tree of a working copy that nobody changed is no result.
    """
    shown = output or any(one.kind != "tree" for one in artifacts)
    return explanation if shown else with_nothing_to_show(explanation)
