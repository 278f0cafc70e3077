"""With few model calls left, the tool turns of a draft leave the calls that judge it."""

import pytest
from installation import Installation
from refining import TONE, WORDS_CHECK, draft, judged, spec, verdict, written

LOOKS = {
    "when": {"role": "executor"},
    "tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}],
}
TOOLS_OFF = {"when": {"role": "executor", "contains": "Tools are switched off now"}}


@pytest.mark.long
async def test_a_draft_answers_before_it_spends_the_calls_of_its_judges(
    site: Installation,
) -> None:
    closes = {**TOOLS_OFF, "text": draft(0.9, "second")}
    replies = [*written(draft(0.6)), closes, LOOKS, {**LOOKS, "times": 3}]
    task = {
        **spec([WORDS_CHECK, TONE], quality_threshold=0.95),
        "tools": {"access": "readonly"},
        "budget": {"model_calls": 5},
    }
    script = {"replies": [*replies, *judged(verdict(0.6), verdict(0.9))]}
    result = await site.run(task, script)
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert [(one.score, one.model_calls) for one in result.iterations] == [(0.6, 2), (0.9, 3)]
    assert result.output == draft(0.9, "second")
    assert result.spend.model_calls == 5


@pytest.mark.long
async def test_a_draft_of_one_call_is_offered_no_tools(site: Installation) -> None:
    task = {
        **spec([WORDS_CHECK, TONE], quality_threshold=0.8),
        "tools": {"access": "readonly"},
        "budget": {"model_calls": 2},
    }
    result = await site.run(task, {"replies": [*written(draft(0.9)), *judged(verdict(0.9))]})
    assert (result.quality_met, result.spend.model_calls) == (True, 2)
    assert [one.tools_offered for one in result.iterations] == [0]
