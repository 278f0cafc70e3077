"""Part-wise refinement of sections and of JSON keys on a real server."""

from collections.abc import Mapping, Sequence

import pytest
from installation import Installation
from refining import judged, prompt_of, spec, verdict
from waiting import eventually

from perdure.domain.run.result import RunResult


def part(name: str, word: str, **more: object) -> dict[str, object]:
    """A check on one part: it names the word."""
    return {
        "name": f"of {name}",
        "part": name,
        "hint": f"Use the word {word}.",
        "evaluator": {"check": "contains", "all": [word]},
        **more,
    }


def task(kind: str, *dimensions: object, **more: object) -> dict[str, object]:
    output = {"parts": kind, **dict(more.pop("output", {}))}  # type: ignore[call-overload]
    settings: Mapping[str, object] = {"quality_threshold": 1.0, "max_iterations": 4, **more}
    return spec(list(dimensions), output=output, **settings)


def said(*texts: str) -> dict[str, object]:
    return {"replies": [{"text": text} for text in texts]}


async def request_of(site: Installation, result: RunResult, iteration: int) -> str:
    """The last request of an iteration."""
    asked = await prompt_of(site, result.iterations[iteration - 1].transcript)
    return [text for role, text in asked if role == "user"][-1]


TREES = [part("Oak", "oak"), part("Elm", "elm"), part("Ash", "ash")]


@pytest.mark.long
async def test_only_failing_sections_are_asked_for(site: Installation) -> None:
    draft = "Trees:\n\n## Oak\n\nAn oak.\n\n## Elm\nnone\n"
    script = said(draft, "## Elm\n\nAn elm.", "An ash.\n## Oak\n\nhijacked")
    result = await site.run(task("sections", *TREES), script)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.output == (
        "Trees:\n\n## Oak\n\nAn oak.\n\n## Elm\n\nAn elm.\n\n## Ash\n\nAn ash.\n"
    )
    assert [record.model_calls for record in result.iterations] == [1, 2]
    gaps = [dimension.gap for dimension in result.iterations[0].dimensions.values()]
    assert gaps[2] == "Ash: the section is missing"
    asked = await request_of(site, result, 2)
    assert 'Write the section "Ash" only' in asked
    assert "An oak" not in asked


async def test_the_bad_draft_of_a_part_is_shown_or_not(site: Installation) -> None:
    for show in ("on", "off"):
        given = task("sections", *TREES[:2], output={"show_draft": show})
        result = await site.run(given, said("## Oak\nAn oak.\n## Elm\nbirch", "An elm."))
        asked = await request_of(site, result, 2)
        assert ("birch" in asked) is (show == "on")
        assert "Use the word elm." in asked
        assert "An oak" not in asked


KEYS = [
    part("name", "ann"),
    {
        "name": "skills",
        "part": "skills",
        "hint": "List three skills.",
        "evaluator": {"check": "json_schema", "schema": {"type": "array", "minItems": 3}},
    },
    {
        "name": "years",
        "part": "years",
        "hint": "A whole number.",
        "evaluator": {"check": "json_schema", "schema": {"type": "integer"}},
    },
]


async def test_only_failing_keys_are_asked_for(site: Installation) -> None:
    draft = '```json\n{"name" : "Ann",  "skills": ["a"], "extra": 1.50}\n```'
    script = said(draft, '["a", "b", "c"]', '{"years": 7}')
    result = await site.run(task("json_keys", *KEYS), script)
    assert result.outcome == "accepted"
    wanted = '{"name" : "Ann",  "skills": ["a", "b", "c"], "extra": 1.50, "years": 7}'
    assert result.output == wanted
    asked = await request_of(site, result, 2)
    assert 'the value of the key "years" only' in asked


async def test_a_reply_that_is_no_json_is_refused_and_the_old_value_kept(
    site: Installation,
) -> None:
    script = said('{"name": "Ann", "skills": ["a"], "years": 1}', "a, b and c", '["a", "b", "c"]')
    result = await site.run(task("json_keys", *KEYS), script)
    assert [record.evaluation for record in result.iterations] == [
        "full", "skipped_identical", "full",
    ]  # fmt: skip
    assert result.output == '{"name": "Ann", "skills": ["a", "b", "c"], "years": 1}'


@pytest.mark.long
async def test_keys_without_gain_end_after_patience(site: Installation) -> None:
    script = said('{"name": "Ann", "skills": [], "years": 1}', *["no"] * 3)
    result = await site.run(task("json_keys", *KEYS, max_iterations=9), script)
    assert (result.outcome, result.reason) == ("best_effort", "diminishing_returns")
    assert len(result.iterations) == 3


TONE = {"name": "tone", "description": "warm", "evaluator": {"judge": {}}}


async def test_a_judge_names_the_section_that_is_written_anew(site: Installation) -> None:
    stiff = {
        "severity": "important",
        "dimension": "tone",
        "title": "too stiff",
        "location": "## Elm",
        "fix": "Say why people love it.",
    }
    draft = "## Oak\n\nAn oak.\n\n## Elm\n\nAn elm."
    executor: Sequence[object] = [
        {"when": {"role": "executor"}, "text": text} for text in (draft, "A lovely elm.")
    ]
    verdicts = judged(verdict(0.5, stiff), verdict(1.0, resolved=["F1"]))
    given = task("sections", *TREES[:2], TONE, output={"show_draft": "off"})
    result = await site.run(given, {"replies": [*executor, *verdicts]})
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.output == "## Oak\n\nAn oak.\n\n## Elm\n\nA lovely elm.\n"
    (found,) = result.iterations[0].findings
    assert found["part"] == "Elm"
    asked = await request_of(site, result, 2)
    assert "Say why people love it." in asked


@pytest.mark.slow
async def test_a_worker_killed_between_parts_loses_none(bare: Installation) -> None:
    replies = [
        {"text": "## Oak\nnone\n## Elm\nnone\n## Ash\nAn ash."},
        {"text": "An oak."},
        {"text": "An elm.", "delay_s": 5},
    ]
    async with bare.worker_process() as worker:
        run = await bare.start(task("sections", *TREES), {"replies": replies})

        async def second_part() -> bool:
            rows = await bare.parts.stores.journal.rows(run)
            begun = [row.state for row in rows] == ["answered", "answered", "started"]
            return begun and await bare.replies_taken(run) == 3

        await eventually(second_part)
        await worker.kill()
        await worker.start()
        result = await bare.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.output is not None
    assert result.output.endswith("## Ash\nAn ash.\n")
    assert "An oak." in result.output
    rows = await bare.parts.stores.journal.rows(run)
    assert [row.state for row in rows][:2] == ["answered", "answered"]
