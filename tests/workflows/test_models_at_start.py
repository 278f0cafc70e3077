"""A run whose model no worker can call is refused before it starts, at every door."""

from decimal import Decimal

import pytest
from installation import Installation

from perdure.domain.foundation.errors import ModelUnavailable
from perdure.domain.specs import RUN_SPEC


@pytest.mark.parametrize(
    ("model", "cure"), [("claude-sonnet-5-5", "ANTHROPIC_API_KEY"), ("local", "perdure")]
)
async def test_a_start_without_key_or_model_is_refused_with_the_cure(
    site: Installation, model: str, cure: str
) -> None:
    spec = {"kind": "agent", "goal": "say something", "models": {"executor": model}}
    with pytest.raises(ModelUnavailable) as caught:
        await site.start(spec)
    assert f"models.executor: {model}: " in caught.value.message
    assert cure in caught.value.message
    assert await site.parts.stores.records.find_runs() == []


async def test_a_chain_with_a_model_that_is_served_starts(site: Installation) -> None:
    script = await site.script({"replies": [{"text": "done"}], "exhausted": "repeat_last"})
    models = {"executor": [script, "claude-sonnet-5-5"]}
    result = await site.run({"kind": "agent", "goal": "say", "learn": False, "models": models})
    assert (result.outcome, result.spend.cost_usd) == ("accepted", Decimal(0))


async def test_a_dry_run_tells_what_is_lacking(site: Installation) -> None:
    spec = RUN_SPEC.validate_python({"kind": "agent", "goal": "g", "models": {"executor": "local"}})
    states = {state.serves: state for state in await site.gateway.readiness(spec)}
    assert set(states["models"].lacks) >= {"claude", "local", "openai"}
    assert states["loops"].lacks == {}
