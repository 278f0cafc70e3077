"""Part-wise refinement on a real server: only failing lines are asked for, passing ones stay."""

from collections.abc import Mapping

import pytest
from installation import Installation
from refining import at_call, prompt_of, spec

from perdure.domain.run.messages import AddInput


def line(part: int, word: str) -> dict[str, object]:
    """A check on one line: it names the word."""
    return {
        "name": f"line {part}",
        "part": part,
        "hint": f"Use the word {word}.",
        "evaluator": {"check": "contains", "all": [word]},
    }


TWO_THIRDS = 0.666666667
LINES = [line(1, "oak"), line(2, "elm"), line(3, "ash")]


def parts(**more: object) -> dict[str, object]:
    """A run over three lines."""
    settings: Mapping[str, object] = {
        "output": {"parts": "lines"},
        "quality_threshold": 1.0,
        "max_iterations": 4,
        **more,
    }
    return spec(LINES, **settings)


def said(*texts: str) -> dict[str, object]:
    return {"replies": [{"text": text} for text in texts]}


async def test_only_failing_lines_are_asked_for_and_merged(site: Installation) -> None:
    result = await site.run(parts(), said("an oak\nnone\nnothing", "an elm", "an ash"))
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.output == "an oak\nan elm\nan ash"
    assert [record.model_calls for record in result.iterations] == [1, 2]
    asked = await prompt_of(site, result.iterations[1].transcript)
    assert [role for role, _ in asked] == ["user", "assistant"]
    assert "Write line 3 only. Use the word ash." in asked[0][1]
    assert "an oak" not in asked[0][1]


async def test_a_worse_line_is_not_taken(site: Installation) -> None:
    script = said("an oak\nan elm\nnothing", "still wrong", "an ash")
    result = await site.run(parts(), script)
    assert [record.score for record in result.iterations] == [TWO_THIRDS, TWO_THIRDS, 1.0]
    assert result.output == "an oak\nan elm\nan ash"
    assert result.iterations[1].evaluation == "skipped_identical"


@pytest.mark.long
async def test_rounds_without_gain_end_after_patience(site: Installation) -> None:
    script = said("an oak\nan elm\nnothing", *["wrong"] * 3)
    result = await site.run(parts(max_iterations=9, patience=2), script)
    assert (result.outcome, result.reason) == ("best_effort", "diminishing_returns")
    assert len(result.iterations) == 3
    assert result.output == "an oak\nan elm\nnothing"


@pytest.mark.long
async def test_a_failing_model_leaves_the_merge_of_what_came(site: Installation) -> None:
    replies = [
        {"text": "an oak\nnone\nnothing"},
        {"text": "an elm"},
        {"error": "refusal"},
        {"text": "an ash"},
    ]
    result = await site.run(parts(), {"replies": replies})
    assert result.outcome == "accepted"
    assert result.output == "an oak\nan elm\nan ash"


@pytest.mark.long
async def test_input_goes_along_with_the_next_line(site: Installation) -> None:
    replies = [
        {"text": "an oak\nnone\nnothing"},
        {"text": "an elm", "delay_s": 2},
        {"text": "an ash"},
    ]
    run = await site.start(parts(), {"replies": replies})
    await at_call(site, run, "executor", 2)
    await site.gateway.verb(run, AddInput(text="in Latin too"))
    result = await site.gateway.result(run)
    asked = await prompt_of(site, result.iterations[1].transcript)
    assert any("in Latin too" in text for _, text in asked)
    assert result.unread_input == ()


async def test_a_spent_budget_between_lines_keeps_the_lines_that_came(site: Installation) -> None:
    given = {**parts(), "budget": {"model_calls": 2}}
    result = await site.run(given, said("an oak\nnone\nnothing", "an elm"))
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert result.output == "an oak\nan elm\nnothing"
