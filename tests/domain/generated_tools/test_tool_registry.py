"""The toolbox of a run: what is pinned stays pinned, and the counts add up."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.generated_tools.messages import ToolsFactorySettings
from perdure.domain.generated_tools.tool_registry import (
    HANDLED_KEPT,
    PinnedTool,
    Toolbox,
    making_tools,
)
from perdure.domain.run.result import ToolMetrics

NAMES = st.sampled_from(["a.a", "a.b", "a.c"])
HASHES = st.sampled_from(["1" * 64, "2" * 64])


@given(st.lists(st.tuples(NAMES, HASHES), max_size=8), st.dictionaries(NAMES, HASHES))
def test_what_was_offered_stays_when_runs_below_flow_back(
    offers: list[tuple[str, str]], below: dict[str, str]
) -> None:
    box = Toolbox()
    for number, (name, hash) in enumerate(offers):
        made = PinnedTool(hash=hash, worker="w")
        box = box.with_begun_draft(str(number)).with_tool(name, made, cached=False, repaired=False)
    joined = box.with_tools_below(
        below, ToolMetrics(attempts=3, failures={"name": 2}), worker="team"
    )
    assert joined.pinned == {**below, **box.pinned}
    assert len(joined.makers) == len(joined.tools)
    assert box.metrics.attempts == box.metrics.successes == len(offers)
    assert joined.metrics.attempts == len(offers) + 3
    assert (joined.metrics.successes, joined.metrics.failures) == (len(offers), {"name": 2})


def test_tools_that_a_run_was_given_are_not_its_own() -> None:
    box = Toolbox.given({"a.a": "1" * 64})
    assert (box.pinned, box.made, box.makers) == ({"a.a": "1" * 64}, {}, ())
    again = box.with_tool("a.a", PinnedTool(hash="1" * 64, worker="w"), cached=True, repaired=False)
    assert again.made == {}
    assert again.metrics.cache_hits == 1


def test_failures_and_repairs_are_counted_by_stage() -> None:
    box = (
        Toolbox()
        .with_begun_draft("0" * 64)
        .with_failure("smoke")
        .with_repair_attempt()
        .with_failure("smoke")
        .with_repair_attempt()
    )
    box = box.with_tool("a.a", PinnedTool(hash="1" * 64, worker="w"), cached=False, repaired=True)
    counted = box.metrics
    assert (counted.failures, counted.repairs_tried, counted.repairs_won) == ({"smoke": 2}, 2, 1)


def test_what_was_handled_is_remembered_within_bounds() -> None:
    box = Toolbox()
    for number in range(HANDLED_KEPT + 5):
        box = box.with_handled_draft(str(number))
    assert len(box.handled) == HANDLED_KEPT
    assert box.handled[-1] == str(HANDLED_KEPT + 4)


def test_a_question_waits_under_the_hash_that_it_is_about() -> None:
    box = Toolbox().with_gate("1" * 64, "g1").with_gate("2" * 64, "g2")
    assert box.with_gate("1" * 64, None).gates == {"2" * 64: "g2"}


def test_workers_are_told_what_holds_for_their_run() -> None:
    told = making_tools(ToolsFactorySettings(namespaces=("stats", "text")))
    assert "begin with stats or text" in told
    assert "{name, code, schema, examples}" in told
    assert "confidence below 0.8" in told
    assert making_tools(ToolsFactorySettings(enabled=False)) == ""
    approved = making_tools(ToolsFactorySettings(approve=True))
    assert "A person approves it first" in approved and "confidence below" not in approved
