"""A reply that its limit cut short is no answer: it is gone on with, or the result says so."""

import pytest
from agent_runs import books_agree, call, calls, echo, results, script, shown, task
from installation import Installation

from perdure.domain.turns.settings import CUT_CALL_PROMPT, FALLBACK_TEXT
from perdure.domain.turns.turn import MOST_CUTS

LIMIT = {"models": {"settings": {"executor": {"max_output_tokens": 100}}}}
LONG = {"usage": {"input_tokens": 50, "output_tokens": 5_000}}
DONE = {"text": "Done."}
CUT_CALL = calls(call("probe.echo", text="long " * 50), **LONG)
TOLD = CUT_CALL_PROMPT.format(name="probe.echo")


def cut(text: str, stop: str = "max_tokens") -> dict[str, object]:
    """A text that stops before it ends."""
    return {"text": text, "stop_reason": stop}


@pytest.mark.long
@pytest.mark.parametrize(
    ("replies", "expected", "output", "truncated"),
    [
        pytest.param(
            [cut("One, "), {"text": "two."}],
            "accepted/text_answer",
            "One, two.",
            False,
            id="continued",
        ),
        pytest.param(
            [cut("One, "), cut("two, ", "context_end"), {"text": "three."}],
            "accepted/text_answer",
            "One, two, three.",
            False,
            id="continued twice",
        ),
        pytest.param(
            [cut("Looking.", "pause_turn"), {"text": "Found."}],
            "accepted/text_answer",
            "Looking.\n\nFound.",
            False,
            id="a pause",
        ),
        pytest.param(
            [cut("One.", "pause_turn"), cut("Two.", "pause_turn"), {"text": "Three."}],
            "accepted/text_answer",
            "One.\n\nTwo.\n\nThree.",
            False,
            id="two pauses",
        ),
        pytest.param(
            [cut("Found.", "pause_turn"), cut("It is "), {"text": "steel."}],
            "accepted/text_answer",
            "Found.\n\nIt is steel.",
            False,
            id="a pause, then cut",
        ),
        pytest.param(
            [cut("It is "), cut("steel.", "pause_turn"), {"text": "Sure."}],
            "accepted/text_answer",
            "It is steel.\n\nSure.",
            False,
            id="cut, then a pause",
        ),
        pytest.param(
            [cut("", "pause_turn"), {"text": "Found."}],
            "accepted/text_answer",
            "Found.",
            False,
            id="a pause without a word",
        ),
        pytest.param(
            [cut("Half.", "pause_turn"), {"error": {"status": 400}}],
            "failed/model_error",
            "Half.",
            False,
            id="a pause, then an error",
        ),
        pytest.param(
            [cut("a"), cut("b"), cut("c"), cut("d")],
            "best_effort/output_limit",
            "abcd",
            True,
            id="for ever",
        ),
        pytest.param(
            [cut("Half."), {"text": ""}, {"text": ""}, {"text": ""}],
            "best_effort/output_limit",
            "Half.",
            True,
            id="then nothing",
        ),
        pytest.param(
            [cut(""), DONE], "accepted/text_answer", "Done.", False, id="before it said anything"
        ),
        pytest.param(
            [{"text": "Now I look.", "stop_reason": "tool_use"}, DONE],
            "accepted/text_answer",
            "Done.",
            False,
            id="a call announced and not brought",
        ),
        pytest.param(
            [cut("Half."), {"error": {"status": 400}}],
            "failed/model_error",
            "Half.",
            True,
            id="then an error",
        ),
        pytest.param(
            [cut("Half."), {"text": "No.", "stop_reason": "refusal"}],
            "failed/refusal",
            "Half.No.",
            True,
            id="then a refusal",
        ),
    ],
)
async def test_a_cut_text(probe: Installation, replies, expected, output, truncated) -> None:
    result = await probe.run(task(), script(*replies))
    assert f"{result.outcome}/{result.reason}" == expected
    assert (result.output, result.truncated) == (output, truncated)
    assert result.quality_met == (result.outcome == "accepted")


@pytest.mark.long
@pytest.mark.parametrize(
    ("replies", "expected", "output", "done"),
    [
        pytest.param(
            [CUT_CALL, echo("a"), DONE], "accepted/text_answer", "Done.", ["a"], id="asked again"
        ),
        pytest.param(
            [CUT_CALL, DONE], "accepted/text_answer", "Done.", [], id="answered without it"
        ),
        pytest.param(
            [{**CUT_CALL, "times": MOST_CUTS + 1}, {"text": "Not written."}],
            "best_effort/output_limit",
            "Not written.",
            [],
            id="cut for ever",
        ),
        pytest.param(
            [{**CUT_CALL, "times": MOST_CUTS + 1}, {"text": ""}],
            "best_effort/output_limit",
            FALLBACK_TEXT,
            [],
            id="cut for ever, and no last word",
        ),
        pytest.param(
            [echo("a"), CUT_CALL, echo("b"), DONE],
            "accepted/text_answer",
            "Done.",
            ["a", "b"],
            id="in the midst",
        ),
    ],
)
async def test_a_cut_call_is_told_and_asked_again(
    probe: Installation, replies, expected, output, done
) -> None:
    result = await probe.run(task(**LIMIT), script(*replies))
    assert f"{result.outcome}/{result.reason}" == expected
    assert result.output == output
    assert [block.text for block in await results(probe, result)] == done
    told = [text for text in await shown(probe, result) if TOLD in text]
    cuts = sum(reply.get("times", 1) for reply in replies if "usage" in reply)
    assert len(told) == min(cuts, MOST_CUTS)
    await books_agree(probe, result)


async def test_the_limit_doubles_with_every_cut(probe: Installation) -> None:
    result = await probe.run(task(**LIMIT), script(CUT_CALL, CUT_CALL, DONE))
    assert [record.usage.output_tokens for record in result.iterations][:2] == [100, 200]


async def test_a_model_may_say_as_much_as_it_can(probe: Installation) -> None:
    """No limit of ours lies below the model's."""
    long = {"text": "x" * 200, "usage": {"input_tokens": 50, "output_tokens": 20_000}}
    result = await probe.run(task(), script(long))
    assert (result.outcome, result.truncated) == ("accepted", False)
    assert result.spend.output_tokens == 20_000
