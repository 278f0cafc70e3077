"""Who may use a made tool, and when a person may open it to later runs."""

from datetime import UTC, datetime

import pytest
from drafts import TEXT_SCHEMA

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.generated_tools.draft import PIPELINE
from perdure.domain.generated_tools.record import (
    GeneratedTool,
    ToolAuthor,
    approved,
    may_use,
    rejected,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TOOL = GeneratedTool(
    hash="a" * 64,
    name="text.count",
    description="Count words.",
    parameters=TEXT_SCHEMA,
    code="sha256:" + "b" * 64,
    handler="handler",
    pipeline=PIPELINE,
    made_at=NOW,
)
MAKER = ToolAuthor(run="agent-w1", root="delegation-x", worker="w1", at=NOW)


def test_the_tree_that_made_a_tool_may_use_it() -> None:
    assert may_use(TOOL, [MAKER], root="delegation-x") is None
    refusal = may_use(TOOL, [MAKER], root="delegation-y")
    assert refusal is not None
    assert "nobody approved it" in refusal


def test_an_approved_tool_is_open_to_all_and_a_rejected_one_to_none() -> None:
    ends = {"delegation-x": "accepted"}
    opened = approved(TOOL, [MAKER], ends, by="ada", now=NOW)
    assert may_use(opened, [MAKER], root="delegation-y") is None
    closed = rejected(opened, by="ada", now=NOW)
    assert may_use(closed, [MAKER], root="delegation-x") == "text.count was rejected by ada"


@pytest.mark.parametrize("outcome", ["best_effort", "failed", None])
def test_only_tools_of_accepted_runs_are_opened(outcome: str | None) -> None:
    with pytest.raises(NotAllowed, match="No accepted run made"):
        approved(TOOL, [MAKER], {"delegation-x": outcome}, by="ada", now=NOW)


def test_a_made_tool_takes_no_argument_that_it_did_not_declare() -> None:
    fact = TOOL.fact
    assert fact.parameters == {**TEXT_SCHEMA, "additionalProperties": False}
    assert (fact.access, fact.idempotent) == ("read", True)
