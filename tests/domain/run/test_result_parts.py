"""What the explanation of a result says of what the run hands over."""

import pytest

from perdure.domain.evaluation.outcomes import explain
from perdure.domain.run.result import Artifact
from perdure.domain.run.result_parts import told_of_what_is_there

TREE = Artifact(kind="tree", ref="sha256:1")


@pytest.mark.parametrize(
    ("output", "artifacts", "told"),
    [
        ("sha256:0", (), "this is the best result so far."),
        (None, (TREE, Artifact(kind="patch", ref="sha256:2")), "this is the best result so far."),
        (None, (Artifact(kind="file", ref="a.txt"),), "this is the best result so far."),
        (None, (TREE,), "there is nothing to show yet."),
        (None, (), "there is nothing to show yet."),
    ],
    ids=["a text", "a change", "a file of a worker", "files that nobody changed", "nothing"],
)
def test_no_result_is_spoken_of_where_there_is_none(
    output: str | None, artifacts: tuple[Artifact, ...], told: str
) -> None:
    explanation = explain("deadline", "active_time", "")
    found = told_of_what_is_there(explanation, output=output, artifacts=artifacts)
    assert found == f"The working time is used up; {told}"
