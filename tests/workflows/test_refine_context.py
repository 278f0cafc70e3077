"""What later iterations are shown: the delta and the last draft, never the full history."""

import pytest
from installation import Installation
from refining import (
    TONE,
    WORDS,
    WORDS_CHECK,
    draft,
    drafts,
    judged,
    prompt_of,
    spec,
    verdict,
    written,
)

TURNS = ["user", "assistant", "user"]
OPEN = {"improvement_threshold": None}
IMPORTANT = {"severity": "important", "dimension": "tone", "title": "too formal", "fix": "warm up"}
SUGGESTION = {"severity": "suggestion", "dimension": "tone", "title": "add a smile", "fix": "smile"}


async def asked(site: Installation, transcript: str | None) -> list[tuple[str, str]]:
    """The messages before the model's reply."""
    return (await prompt_of(site, transcript))[:-1]


async def test_a_later_iteration_is_shown_draft_and_delta_alone(site: Installation) -> None:
    result = await site.run(spec(**OPEN), {"replies": drafts(0.3, 0.5, 0.6)})
    first, second, third = [await asked(site, r.transcript) for r in result.iterations]
    assert [role for role, _ in first] == ["user"]
    assert [role for role, _ in second] == TURNS
    assert [role for role, _ in third] == TURNS
    assert first[0] == second[0] == third[0]
    assert second[1][1] == draft(0.3, "number1")
    assert third[1][1] == draft(0.5, "number2")
    assert not any("number1" in text for _, text in third)
    delta = third[2][1]
    missing = ", ".join(WORDS[5:])
    assert f"- [important] missing: {missing} → Use {missing}." in delta


async def test_the_delta_names_findings_and_dimensions_below_target(site: Installation) -> None:
    tone = verdict(0.5, IMPORTANT, SUGGESTION)
    replies = [*written(draft(1), draft(1, "b")), *judged(tone, verdict(1))]
    result = await site.run(spec([WORDS_CHECK, TONE], **OPEN), {"replies": replies})
    delta = (await asked(site, result.transcript))[2][1]
    assert "- [important] too formal → warm up" in delta
    assert "smile" not in delta
    assert "missing" not in delta


async def test_with_nothing_open_the_weakest_dimension_is_named(site: Installation) -> None:
    warm = {**TONE, "name": "warmth"}
    scores = [
        {"name": "tone", "score": 0.9, "gap": "a little stiff"},
        {"name": "warmth", "score": 0.85, "gap": "cool"},
    ]
    replies = [*written("a", "b"), *judged({"dimensions": scores, "findings": [], "resolved": []})]
    result = await site.run(
        spec([TONE, warm], min_iterations=2, max_iterations=2), {"replies": replies}
    )
    delta = (await asked(site, result.transcript))[2][1]
    assert "- warmth: 0.85, cool" in delta
    assert "tone" not in delta.split("Still open:")[1]


async def test_an_unscored_iteration_is_followed_by_its_error_and_the_last_delta(
    site: Installation,
) -> None:
    replies = [*written(draft(0.5, "a")), {"error": "refusal"}, *written(draft(0.9))]
    result = await site.run(spec(**OPEN), {"replies": replies})
    said = await asked(site, result.transcript)
    assert [role for role, _ in said] == ["user"]
    assert "The previous attempt failed" in said[0][1]
    assert "Still open from before:\n- [important] missing: bay" in said[0][1]
    assert draft(0.5, "a") not in said[0][1]


@pytest.mark.parametrize(
    ("shown", "roles"), [("off", ["user"]), ("on", ["user", "assistant", "user"])]
)
async def test_the_draft_is_shown_as_the_task_says(
    site: Installation, shown: str, roles: list[str]
) -> None:
    given = spec(output={"show_draft": shown}, **OPEN)
    result = await site.run(given, {"replies": drafts(0.5, 0.9)})
    assert [role for role, _ in await asked(site, result.transcript)] == roles


async def test_a_text_that_was_cut_off_is_continued(site: Installation) -> None:
    replies = [
        {"text": "oak elm ash fir yew ", "stop_reason": "max_tokens"},
        {"text": "bay fig gum nut box"},
    ]
    result = await site.run(spec(), {"replies": replies})
    assert (result.outcome, result.output) == ("accepted", " ".join(WORDS))
    assert [role for role, _ in await asked(site, result.transcript)] == [
        "user",
        "assistant",
        "user",
    ]
    assert result.iterations[0].model_calls == 2
    assert not result.partial


async def test_a_text_that_stays_cut_off_is_partial(site: Installation) -> None:
    cut = [{"text": f"{word} ", "stop_reason": "max_tokens"} for word in WORDS[:4]]
    result = await site.run(spec(max_iterations=1), {"replies": cut})
    assert result.output == "oak elm ash fir "
    assert result.iterations[0].score == 0.4
    assert (result.partial, result.truncated) == (True, True)


async def test_tools_run_inside_an_iteration(site: Installation) -> None:
    look = {"name": "fs.list", "arguments": {"path": "."}}
    replies = [
        {"tool_calls": [look]},
        {"text": draft(0.5)},
        {"tool_calls": [look]},
        {"text": draft(1)},
    ]
    given = {**spec(**OPEN), "tools": {"access": "readonly"}}
    result = await site.run(given, {"replies": replies})
    assert [record.tool_calls for record in result.iterations] == [1, 1]
    assert [record.model_calls for record in result.iterations] == [2, 2]
    assert result.tools_used == {"fs.list": 2}
    assert result.spend.tool_calls == 2


async def test_the_wrap_up_reserve_opens_with_a_complete_best(site: Installation) -> None:
    script = {"max_output": 60, "replies": drafts(0.3, 0.4)}
    given = {
        **spec(max_iterations=2, **OPEN),
        "tools": {"access": "minimal"},
        "budget": {"tokens": 640, "wrap_up": 0.5},
    }
    result = await site.run(given, script)
    assert [record.score for record in result.iterations] == [0.3, 0.4]
    assert (result.outcome, result.partial) == ("best_effort", False)


async def test_a_spent_allowance_before_any_draft_is_wrapped_up(site: Installation) -> None:
    look = {"name": "fs.list", "arguments": {"path": "."}}
    usage = {"input_tokens": 1_300, "output_tokens": 40}
    replies = [{"tool_calls": [look]}, {"text": draft(0.4)}]
    given = {**spec(), "tools": {"access": "readonly"}, "budget": {"tokens": 3_600, "wrap_up": 0.5}}
    result = await site.run(
        given, {"defaults": {"usage": usage}, "replies": replies, "max_output": 60}
    )
    assert (result.outcome, result.reason) == ("out_of_budget", "tokens")
    assert (result.output, result.partial) == (draft(0.4), True)
    assert result.iterations[0].score == 0.4
