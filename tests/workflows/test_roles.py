"""The role loop on a real server: every way it ends, and what its stages are told."""

from installation import Installation
from teams import APPROVED, rejected, says, script, task


async def test_a_team_works_until_the_review_approves(site: Installation) -> None:
    replies = [
        says("plan", "the plan", times=2),
        says("coder", "first draft"),
        says("reviewer", rejected("no tests")),
        says("coder", "second draft"),
        says("reviewer", APPROVED),
    ]
    result = await site.run(task(), script(replies))
    assert (result.outcome, result.reason) == ("accepted", "approved")
    assert result.quality_met
    assert result.output == "second draft"
    records = await site.records(result.id)
    assert [record.index for record in records] == [1, 2]
    assert [record.decision for record in records] == ["continue", "accept"]
    assert [stage.name for stage in records[0].stages] == ["plan", "coder", "reviewer"]
    assert {stage.status for stage in records[1].stages} == {"completed"}
    assert [verdict.kind for record in records for verdict in record.verdicts] == [
        "rejected",
        "approved",
    ]
    assert records[0].findings[0]["title"] == "no tests"
    assert result.spend.model_calls == 6
    assert result.spend.tokens == 6 * 120
