"""Results of a schema: asked for, read, asked for once more, never accepted when they miss it."""

import json

import pytest
from agent_runs import books_agree, echo, event_types, script, task
from installation import Installation

from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.requests import ModelRequest
from perdure.domain.ports import ignore_usage

SCHEMA = {
    "type": "object",
    "required": ["km"],
    "properties": {"km": {"type": "number"}},
    "additionalProperties": False,
}
FITS = {"text": '```json\n{"km": 94.5}\n```'}
MISSES = {"text": '{"km": "far"}'}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ModelRequest]:
    """What the model was asked."""
    seen: list[ModelRequest] = []
    play = ScriptedModel.call

    async def listening(self, request, *, on_text, on_answer=ignore_usage):
        seen.append(request)
        return await play(self, request, on_text=on_text, on_answer=on_answer)

    monkeypatch.setattr(ScriptedModel, "call", listening)
    return seen


@pytest.mark.parametrize(
    ("replies", "end", "value", "shaped"),
    [
        pytest.param([FITS], "accepted/text_answer", {"km": 94.5}, [True], id="fits"),
        pytest.param(
            [MISSES, FITS], "accepted/text_answer", {"km": 94.5}, [True, True], id="second fits"
        ),
        pytest.param(
            [MISSES, MISSES, FITS],
            "best_effort/schema_unmet",
            None,
            [True, True],
            id="asked again once",
        ),
        pytest.param(
            [{"text": "Far."}, {"text": "Far."}],
            "best_effort/schema_unmet",
            None,
            [True, True],
            id="words alone",
        ),
    ],
)
async def test_an_answer_of_a_schema(
    site: Installation, asked, replies, end: str, value: object, shaped: list[bool]
) -> None:
    given = task(output_schema=SCHEMA, tools={"access": "minimal"})
    result = await site.run(given, script(*replies))
    assert f"{result.outcome}/{result.reason}" == end
    assert [request.json_schema == SCHEMA for request in asked] == shaped
    assert (result.value, result.fits_schema) == (value, value is not None)
    assert result.output is not None
    if value is not None:
        assert json.loads(result.output) == value
        assert (result.misfits, result.quality_met) == ((), True)
    else:
        assert result.output == replies[1]["text"], "the text is kept"
        assert result.misfits
        assert result.misfits[0] in result.explanation
        assert not result.quality_met
    await books_agree(site, result)


async def test_with_tools_it_is_asked_for_in_words_and_then_by_structured_output(
    probe: Installation, asked
) -> None:
    result = await probe.run(task(output_schema=SCHEMA), script(echo("a"), MISSES, FITS))
    assert (result.outcome, result.value) == ("accepted", {"km": 94.5})
    assert [request.json_schema == SCHEMA for request in asked] == [False, False, True]
    assert [request.tool_choice for request in asked] == ["auto", "auto", "none"]
    assert all('"km"' in request.system for request in asked)
    assert "$.km" in asked[2].messages[-1].text, "it is told what is wrong"
    assert (await event_types(probe, result.id)).count("text_answered") == 2


async def test_what_was_said_beside_tool_calls_is_not_taken_for_the_value(
    probe: Installation,
) -> None:
    """The model answers nothing after its call, and then nothing again."""
    beside = {**echo("a"), "text": "I will look."}
    result = await probe.run(
        task(output_schema=SCHEMA), script(beside, {"text": " "}, {"text": " "})
    )
    assert (result.outcome, result.reason) == ("best_effort", "schema_unmet")
    assert result.fits_schema is False
    assert result.output == "I will look."


async def test_an_answer_that_a_limit_ended_says_whether_it_fits(site: Installation) -> None:
    given = task(output_schema=SCHEMA, tools={"access": "minimal"}, budget={"model_calls": 1})
    result = await site.run(given, script(FITS))
    assert (result.outcome, result.fits_schema, result.value) == (
        "out_of_budget",
        True,
        {"km": 94.5},
    )


def drafts(*replies: object, **refine: object) -> tuple[dict[str, object], dict[str, object]]:
    """A refine task that any draft passes, and what the model says."""
    given = {
        "kind": "refine",
        "goal": "g",
        "output_schema": SCHEMA,
        "rubric": [{"name": "any", "evaluator": {"check": "length", "unit": "chars", "min": 1}}],
        "refine": {"plan": "off", **refine},
        "tools": {"access": "minimal"},
    }
    return given, script(*replies)  # type: ignore[arg-type]


async def test_a_draft_that_fits_is_scored_and_accepted(site: Installation) -> None:
    result = await site.run(*drafts(MISSES, FITS))
    assert (result.outcome, result.value, result.fits_schema) == ("accepted", {"km": 94.5}, True)
    assert (result.iteration_count, result.quality_met) == (1, True)


async def test_the_next_draft_is_told_what_the_last_one_missed(site: Installation, asked) -> None:
    result = await site.run(*drafts(MISSES, MISSES, FITS))
    assert (result.outcome, result.value) == ("accepted", {"km": 94.5})
    first, second = result.iterations
    assert first.score is None
    assert first.error is not None
    assert "output_schema" in first.error
    assert second.score == 1.0
    assert "$.km" in "\n".join(message.text for message in asked[2].messages)


async def test_drafts_that_never_fit_are_never_accepted_and_never_lost(site: Installation) -> None:
    given, replies = drafts(*[MISSES] * 8)
    run = await site.start(given, replies)
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("failed", "schema_unmet")
    assert (result.fits_schema, result.quality_met, result.value) == (False, False, None)
    assert result.output == MISSES["text"]
    assert "$.km" in result.misfits[0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"output_schema": {"type": "nonsense"}}, "output_schema: .*not valid"),
        ({"output_schema": {"pattern": "(?=a)"}}, "output_schema: "),
    ],
    ids=["no schema", "a pattern that may take for ever"],
)
async def test_a_schema_that_cannot_be_used_is_refused(site: Installation, changes, told) -> None:
    with pytest.raises(InvalidInput, match=told):
        await site.start(task(**changes), script(FITS))
