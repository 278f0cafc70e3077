"""What an iteration is not sent and not judged again, on a real server."""

from collections.abc import Mapping, Sequence

import pytest
from installation import Installation
from refining import TONE, draft, judge_prompts, judged, prompt_of, spec, written

from perdure.domain.outputs.compression import compress
from perdure.domain.run.result import RunResult

OPEN = {"improvement_threshold": None, "plan": "off"}
ACCURACY: dict[str, object] = {
    "name": "accuracy",
    "description": "true to the source",
    "evaluator": {"judge": {}},
}
TREES: dict[str, object] = {
    "name": "trees",
    "weight": 0.1,
    "evaluator": {"check": "contains", "all": ["oak", "elm"]},
}


def lines(*changed: int, mark: str = "") -> str:
    """Ten lines, of which some have another text."""
    texts = [f"line {n}: {'new' + mark if n in changed else 'old'} oak elm" for n in range(1, 11)]
    return "\n".join(texts)


def said(
    scores: Mapping[str, float], *findings: Mapping[str, object], resolved: Sequence[str] = ()
) -> dict[str, object]:
    """A verdict on some dimensions."""
    rows = [
        {"name": name, "score": score, "gap": "" if score == 1 else "stiff"}
        for name, score in scores.items()
    ]
    return {"dimensions": rows, "findings": list(findings), "resolved": list(resolved)}


def kinds(result: RunResult) -> list[str]:
    return [record.evaluation for record in result.iterations]


async def test_only_affected_dimensions_are_judged_again(site: Installation) -> None:
    replies = [
        *written(lines(), lines(2, 3)),
        *judged(said({"tone": 0.6, "accuracy": 0.9}), said({"tone": 0.95})),
    ]
    given = spec([TREES, TONE, ACCURACY], quality_threshold=0.85, **OPEN)
    run = await site.start(given, {"replies": replies})
    result = await site.gateway.result(run)
    assert kinds(result) == ["full", "incremental"]
    dimensions = result.iterations[1].dimensions
    assert {name: item.carried for name, item in dimensions.items()} == {
        "trees": False,
        "tone": False,
        "accuracy": True,
    }
    assert dimensions["accuracy"].score == 0.9
    _, second = await judge_prompts(site, run)
    assert "- tone" in second
    assert "- accuracy" not in second
    assert result.outcome == "accepted"


@pytest.mark.parametrize(
    ("second", "kind", "asked"),
    [
        pytest.param(lines(*range(1, 8)), "full", True, id="70 % changed"),
        pytest.param(lines(4), "incremental", False, id="one line of ten, and good before"),
    ],
)
async def test_how_much_changed_decides(
    site: Installation, second: str, kind: str, asked: bool
) -> None:
    first = said({"tone": 0.85, "accuracy": 0.95})
    replies = [*written(lines(), second), *judged(first, said({"tone": 1, "accuracy": 1}))]
    rubric = [{**TREES, "weight": 1}, TONE, ACCURACY]
    settings = {"quality_threshold": 1.0, "max_iterations": 2}
    result = await site.run(spec(rubric, **settings, **OPEN), {"replies": replies})
    assert result.iterations[0].score == pytest.approx(0.9333, abs=0.001)
    assert kinds(result) == ["full", kind]
    assert result.iterations[1].model_calls == 1 + asked
    assert result.savings.judge_calls_saved == (not asked)
    assert result.iterations[1].dimensions["tone"].carried is not asked


async def test_a_finding_stays_open_while_nobody_looks(site: Installation) -> None:
    smile = {"severity": "suggestion", "dimension": "tone", "title": "smile", "fix": "smile"}
    replies = [*written(lines(), lines(4)), *judged(said({"tone": 0.95, "accuracy": 0.95}, smile))]
    settings = {"quality_threshold": 1.0, "max_iterations": 2}
    result = await site.run(
        spec([{**TREES, "weight": 1}, TONE, ACCURACY], **settings, **OPEN), {"replies": replies}
    )
    assert [len(record.findings) for record in result.iterations] == [1, 1]


async def test_a_confident_score_and_green_checks_need_no_judge(site: Installation) -> None:
    replies = [
        *written(lines(), lines(*range(1, 10))),
        *judged(said({"tone": 0.96, "accuracy": 0.96})),
    ]
    settings = {"min_iterations": 2, "max_iterations": 2}
    result = await site.run(spec([TREES, TONE, ACCURACY], **settings, **OPEN), {"replies": replies})
    assert kinds(result) == ["full", "skipped_confident"]
    assert result.iterations[1].score == result.iterations[0].score
    assert (result.savings.evaluations_skipped, result.savings.judge_calls_saved) == (1, 1)


async def test_the_evaluator_keeps_to_its_share(site: Installation) -> None:
    usage = {"input_tokens": 2_000, "output_tokens": 100}
    replies = [
        *written(draft(0.5, "a"), draft(0.6, "b"), draft(0.7, "c")),
        *judged(*[said({"tone": 0.5})] * 3),
    ]
    given = {
        **spec([TREES, TONE], evaluator_share=0.2, max_iterations=5, **OPEN),
        "budget": {"tokens": 20_000},
    }
    script = {"defaults": {"usage": usage}, "max_output": 200, "replies": replies}
    result = await site.run(given, script)
    assert (result.outcome, result.reason) == ("out_of_budget", "tokens")
    assert result.exhausted is not None
    assert "refine.evaluator_share" in result.exhausted.text
    assert {record.evaluation for record in result.iterations} == {"full"}, "none is left unjudged"
    assert result.best is not None
    assert result.savings.evaluator_limit == 4_000
    assert 0 < result.savings.evaluator_tokens <= 4_000


LONG = "\n\n".join(
    [f"## Part {n}\n\nPart {n} says something. {'Words follow words. ' * 20}" for n in range(9)]
)


async def test_a_long_draft_is_shown_folded_and_put_back_whole(site: Installation) -> None:
    folded = compress(LONG).text
    replies = [*written(LONG, f"{folded}\n\nAn oak and an elm.")]
    given = spec([TREES], max_iterations=2, **OPEN)
    result = await site.run(given, {"replies": replies})
    shown = await prompt_of(site, result.iterations[1].transcript)
    assert shown[1] == ("assistant", folded)
    assert len(folded) < 0.5 * len(LONG)
    assert "repeat its mark" in shown[2][1]
    assert result.output == f"{LONG}\n\nAn oak and an elm."
    assert result.outcome == "accepted"


async def test_a_long_output_is_judged_on_what_changed(site: Installation) -> None:
    stiff = {
        "severity": "important",
        "dimension": "tone",
        "title": "stiff",
        "fix": "warm up",
        "location": '"Part 3 says"',
    }
    second = LONG.replace("Part 3 says something.", "Part 3 says it warmly.")
    replies = [
        *written(LONG, second),
        *judged(said({"tone": 0.6}, stiff), said({"tone": 1.0}, resolved=["F1"])),
    ]
    given = spec([TONE], max_iterations=2, **OPEN)
    run = await site.start(given, {"replies": replies})
    result = await site.gateway.result(run)
    assert kinds(result) == ["full", "incremental"]
    first, again = await judge_prompts(site, run)
    assert LONG in first
    assert "Part 3 says it warmly." in again
    assert "judge the whole" in again
    assert len(again) < 0.6 * len(first)
    assert result.iterations[0].saved is None
    assert (result.iterations[1].saved or 0) > 0.3
    assert result.savings.naive_input_tokens > result.savings.input_tokens


async def test_each_judge_of_the_rubric_scores_its_own(site: Installation) -> None:
    other = {"when": {"role": "evaluator", "contains": "true to the source"}}
    mine = {"when": {"role": "evaluator", "contains": "warm and concrete"}}
    flaw = {"severity": "suggestion", "title": "a flaw", "fix": "mend it"}
    replies = [
        *written("a draft"),
        {**mine, "json": said({"tone": 0.9}, {**flaw, "dimension": "tone"})},
        {**other, "json": said({"accuracy": 0.7}, {**flaw, "dimension": "accuracy"})},
    ]
    address = await site.script({"replies": replies})
    second = {**ACCURACY, "evaluator": {"judge": {"model": f"{address}#second"}}}
    given = {**spec([TONE, second], max_iterations=1, **OPEN), "models": {"executor": address}}
    result = await site.run(given)
    record = result.iterations[0]
    assert {name: item.score for name, item in record.dimensions.items()} == {
        "tone": 0.9,
        "accuracy": 0.7,
    }
    assert record.model_calls == 3
    assert [finding["id"] for finding in record.findings] == ["F1", "F2"]
    assert len(result.models_used) == 2


async def test_the_same_value_in_another_form_is_checked_again(site: Installation) -> None:
    indented = {"name": "form", "evaluator": {"check": "regex", "pattern": '\n  "'}}
    replies = written('{"oak": 1}', '{\n  "oak": 1\n}')
    result = await site.run(spec([indented]), {"replies": replies})
    assert [(record.evaluation, record.score) for record in result.iterations] == [
        ("full", 0.0),
        ("full", 1.0),
    ]
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
