"""Checks of plugins through a real run, and a review that outlives an execution of the workflow."""

from pathlib import Path

from installation import Installation, installation
from refining import draft, open_gate, spec, written
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Answer
from perdure.domain.run.spec import Timing

PLUGIN = {"name": "trees", "evaluator": {"check": "probe.trees", "least": 4}}
LIKED = {"name": "liked", "evaluator": {"human": {"prompt": "Send?"}}}


async def test_a_check_of_a_plugin_scores_and_says_what_is_missing(bare: Installation) -> None:
    async with bare.worker(plugins=("probe_trees",)):
        result = await bare.run(spec([PLUGIN]), {"replies": written("oak elm", "oak elm ash fir")})
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert [record.score for record in result.iterations] == [0.5, 1.0]
    assert "2 of 4 trees" in result.iterations[0].dimensions["trees"].gap


async def test_reviews_go_on_across_continue_as_new(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    timing = Timing(roll_events=8)
    replies = written(draft(0.5, "a"), draft(0.6, "b"))
    async with installation(tmp_path / "home", address, timing=timing) as site, site.worker():
        run = await site.start(spec([LIKED], improvement_threshold=None), {"replies": replies})
        gate = await open_gate(site, run)
        await site.gateway.verb(run, Answer(gate=gate.id, text="0.2 too stiff", by="ann"))

        async def asks_again() -> bool:
            return any(other.id != gate.id for other in (await site.status(run)).gates)

        await eventually(asks_again)
        second = await open_gate(site, run)
        await site.gateway.verb(run, Answer(gate=second.id, text="1", by="ann"))
        result = await site.gateway.result(run)
        described = await site.handle(run).describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
    assert [record.score for record in result.iterations] == [0.2, 1.0]
    assert (result.outcome, result.output) == ("accepted", draft(0.6, "b"))
