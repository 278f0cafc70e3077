"""The pattern `strategies` on a real server: an error, a failure, then the one that passes."""

import pytest
from installation import Installation
from refining import WORDS_CHECK, draft, drafts, events, prompt_of, spec
from waiting import eventually

from perdure.domain.foundation.errors import InvalidInput

TRIES = {"pattern": "strategies", "strategies": ["detailed", "by keywords", "by sections"]}
REFUSED = {"error": "refusal"}


async def test_an_error_a_failure_and_a_success(site: Installation) -> None:
    replies = [REFUSED, {"text": draft(0.4, "a")}, {"text": draft(0.9, "b")}]
    run = await site.start(spec(**TRIES), {"replies": replies})
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "strategy_succeeded")
    assert result.quality_met
    assert result.output == draft(0.9, "b")
    assert [record.score for record in result.iterations] == [None, 0.4, 0.9]
    assert [record.adaptation for record in result.iterations] == [
        "strategy detailed", "strategy by keywords", "strategy by sections",
    ]  # fmt: skip
    switched = [e.data for e in await events(site, run) if e.type == "strategy_switched"]
    assert switched == [
        {"failed": "detailed", "to": "by keywords"},
        {"failed": "by keywords", "to": "by sections"},
    ]
    last = await prompt_of(site, result.iterations[2].transcript)
    assert [role for role, _ in last] == ["user", "assistant"]
    assert "Go about it this way: by sections" in last[0][1]
    assert draft(0.4, "a") not in last[0][1]
    assert "missing: yew" in last[0][1]


async def test_the_best_attempt_is_left_when_none_passes(site: Installation) -> None:
    result = await site.run(spec(**TRIES), {"replies": drafts(0.2, 0.7, 0.1)})
    assert (result.outcome, result.reason) == ("best_effort", "max_iterations")
    assert result.output == draft(0.7, "number2")
    assert len(result.iterations) == 3


async def test_the_same_output_falls_and_failures_end_nothing(site: Installation) -> None:
    replies = [{"text": draft(0.6)}, {"text": draft(0.6)}, REFUSED, REFUSED, *drafts(0.1, 0.8)]
    result = await site.run(spec(**TRIES, max_iterations=7), {"replies": replies})
    assert (result.outcome, result.reason) == ("accepted", "strategy_succeeded")
    assert [record.score for record in result.iterations] == [0.6, 0.6, None, None, 0.1, 0.8]
    assert result.iterations[3].adaptation == "strategy detailed"


async def test_strategies_that_all_fail_end_as_failed(site: Installation) -> None:
    result = await site.run(spec(**TRIES), {"replies": [REFUSED] * 3})
    assert (result.outcome, result.reason) == ("failed", "refusal")
    assert len(result.iterations) == 3
    assert result.output is None


async def test_a_strategy_brings_its_model_and_fewer_tools(site: Installation) -> None:
    listing = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
    own = await site.script({"replies": [listing, {"text": draft(0.9, "own")}]})
    given = {
        **spec(
            pattern="strategies",
            strategies=[
                {"name": "blind", "tools": {"allow": []}},
                {"name": "other", "model": own, "tools": {"allow": ["fs.list"]}},
            ],
        ),
        "tools": {"access": "readonly", "allow": ["fs.*"]},
    }
    result = await site.run(given, {"replies": drafts(0.3)})
    assert (result.outcome, result.output) == ("accepted", draft(0.9, "own"))
    assert [record.tools_offered for record in result.iterations] == [0, 1]
    assert result.tools_used == {"fs.list": 1}
    assert len(result.models_used) == 2
    assert own in result.spend.by_model


async def test_a_call_of_a_tool_that_a_strategy_leaves_out_does_not_run(site: Installation) -> None:
    listing = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
    given = {
        **spec(pattern="strategies", strategies=[{"name": "a", "tools": {"deny": ["fs.list"]}}]),
        "tools": {"access": "readonly", "allow": ["fs.*"]},
    }
    result = await site.run(given, {"replies": [listing, {"text": draft(0.9)}]})
    assert result.outcome == "accepted"
    assert [call.outcome for call in result.iterations[0].calls] == ["error"]
    assert result.spend.tool_calls == 0


async def test_a_failing_model_of_a_strategy_hands_over_to_its_own_fallback(
    site: Installation,
) -> None:
    broken = await site.script({"replies": [REFUSED]})
    heir = await site.script({"replies": drafts(0.9)})
    given = spec(pattern="strategies", strategies=[{"name": "a", "model": [broken, heir]}])
    result = await site.run(given, {"replies": drafts(0.1)})
    assert result.reason == "strategy_succeeded"
    adaptation = result.iterations[0].adaptation or ""
    assert adaptation.startswith("strategy a")


@pytest.mark.parametrize(
    ("strategy", "path"),
    [
        pytest.param({"name": "a", "model": "nobody-9"}, "strategies[0].model", id="model"),
        pytest.param(
            {"name": "a", "tools": {"allow": ["fs.write"]}}, "strategies[0].tools", id="tool"
        ),
    ],
)
async def test_what_a_strategy_cannot_have_is_refused_before_the_start(
    site: Installation, strategy: dict[str, object], path: str
) -> None:
    given = {
        **spec(pattern="strategies", strategies=[strategy]),
        "tools": {"access": "readonly", "allow": ["fs.*"]},
    }
    with pytest.raises(InvalidInput) as refused:
        await site.start(given, {"replies": drafts(0.9)})
    assert path in str(refused.value)


@pytest.mark.slow
async def test_a_worker_killed_inside_a_strategy_goes_on_with_it(bare: Installation) -> None:
    # Whether the retry is the same call or, its reservation spent, a new one: it says the same.
    replies = [
        REFUSED,
        {"when": {"iteration": 2}, "text": draft(0.4), "delay_s": 3, "times": 3},
        {"when": {"iteration": 3}, "text": draft(0.9)},
    ]
    async with bare.worker_process() as worker:
        run = await bare.start(spec([WORDS_CHECK], **TRIES), {"replies": replies})

        async def trying() -> bool:
            rows = await bare.parts.stores.journal.rows(run)
            return len(rows) == 2 and rows[1].state == "started"

        await eventually(trying)
        await worker.kill()
        await worker.start()
        result = await bare.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "strategy_succeeded")
    assert [record.adaptation for record in result.iterations] == [
        "strategy detailed", "strategy by keywords", "strategy by sections",
    ]  # fmt: skip
