"""A model that failed for one run is skipped by new runs for a minute."""

import pytest
from installation import Installation

FAILS = {"replies": [{"error": {"status": 500}, "times": 8}]}
ANSWERS = {"replies": [{"text": "from the second", "times": 5}]}


@pytest.mark.long
async def test_a_new_run_begins_behind_a_model_that_just_failed(site: Installation) -> None:
    chain = [await site.script(FAILS), await site.script(ANSWERS)]
    spec = {"kind": "agent", "goal": "say it", "models": {"executor": chain}}
    first = await site.run(spec)
    second = await site.run(spec)
    assert [first.output, second.output] == ["from the second"] * 2
    assert first.spend.model_calls > 1
    assert second.spend.model_calls == 1


async def test_a_chain_of_failing_models_alone_is_tried_from_its_start(site: Installation) -> None:
    only = await site.script({"replies": [{"error": {"status": 400}}, {"text": "healed"}]})
    spec = {"kind": "agent", "goal": "say it", "models": {"executor": [only]}}
    started = await site.start(spec)
    failed = await site.gateway.result(started)
    assert failed.outcome == "failed"
    again = await site.run(spec)
    assert again.spend.model_calls == 1
