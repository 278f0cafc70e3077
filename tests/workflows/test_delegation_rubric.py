"""A rubric over what a manager hands over: it decides, it names what is missing, it may fail."""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from agent_runs import Reply, answer, call, calls, gate_of
from delegating import (
    books_of_the_tree_agree,
    completes,
    decides,
    delegates,
    delegation,
    script,
    works,
)
from enclosure import needs_bubblewrap
from installation import Installation, eventually, installation
from temporalio.testing import WorkflowEnvironment

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.messages import Answer, Resume, Stop
from perdure.domain.run.spec import Timing

STEEL = {"name": "steel", "evaluator": {"check": "contains", "all": ["steel", "cork"]}}
TONE = {"name": "tone", "description": "warm", "evaluator": {"judge": {}}}
LENGTH = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 20}}


def judged(
    score: float, gap: str = "too cold", *, when: Mapping[str, object] | None = None
) -> Reply:
    given = {"name": "tone", "score": score, **({"gap": gap} if score < 1 else {})}
    return {
        "when": {"role": "evaluator", **(when or {})},
        "json": {"dimensions": [given], "findings": []},
    }


def task(*rubric: Mapping[str, object], **more: object) -> dict[str, object]:
    return delegation(rubric=list(rubric), **more)


async def test_a_good_score_accepts(site: Installation) -> None:
    result = await site.run(
        task(STEEL, TONE),
        script(delegates("w1"), works("w1"), completes("steel and cork"), judged(0.9)),
    )
    assert (result.outcome, result.reason, result.quality_met) == ("accepted", "completed", True)
    assert "score 0.95" in result.explanation
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (2, 0.95)
    last = result.iterations[-1]
    assert (last.score, last.evaluation) == (0.95, "full")
    assert {name: one.score for name, one in last.dimensions.items()} == {"steel": 1, "tone": 0.9}
    assert result.savings.evaluator_tokens == 1_100, "one judge's call"
    assert result.savings.evaluator_limit == 3_000_000
    await books_of_the_tree_agree(site, result)


async def test_what_is_missing_goes_back_and_the_next_version_passes(site: Installation) -> None:
    told = {"role": "manager", "contains": "tone: too cold"}
    scored_by = {"role": "manager", "contains": "What you hand over is scored by"}
    result = await site.run(
        task(TONE),
        script(
            {**completes("steel"), "when": scored_by},
            judged(0.5),
            {**delegates("w1"), "when": told},
            works("w1"),
            completes("warm steel"),
            judged(0.85, when={"contains": "warm steel"}),
        ),
    )
    assert (result.outcome, result.output) == ("accepted", "warm steel")
    assert [record.score for record in result.iterations] == [0.5, 0.7, 0.85]
    await books_of_the_tree_agree(site, result)


@pytest.mark.parametrize(
    ("score", "ending", "said"),
    [
        (0.7, ("accepted", "completed"), "with a warning"),
        (0.3, ("failed", "quality_failed"), "score 0.30"),
    ],
    ids=["below good: accepted with a warning", "hopeless: failed"],
)
async def test_the_thresholds(
    site: Installation, score: float, ending: tuple[str, str], said: str
) -> None:
    result = await site.run(task(TONE), script(completes("steel"), judged(score)))
    assert (result.outcome, result.reason) == ending
    assert said in result.explanation
    assert result.output == "steel", "also what failed is handed over"


async def test_the_best_version_is_returned_not_the_last(site: Installation) -> None:
    result = await site.run(
        task(TONE, delegation={"completion_rejections": 1}),
        script(
            completes("first"), judged(0.55),
            works("completion_repair"),
            completes("second"), judged(0.45, when={"contains": "second"}),
        ),
    )  # fmt: skip
    assert (result.outcome, result.reason) == ("best_effort", "completion_rejected")
    assert result.output == "first"
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (1, 0.55)
    assert result.quality_met is False
    assert result.spend.workers == 1, "one repair, told what the rubric misses"


async def test_the_reviewers_mean_does_not_stand_in_for_the_rubric(site: Installation) -> None:
    result = await site.run(
        task(TONE, delegation={"critique": {"enabled": True}}),
        script(
            delegates("w1", acceptance="It is warm."),
            works("w1"),
            {"when": {"role": "critic"}, "json": {"score": 1.0, "defects": []}},
            completes("steel"),
            judged(0.2),
        ),
    )
    assert (result.outcome, result.reason) == ("failed", "quality_failed")


async def test_deciding_checks_accept_at_once(site: Installation) -> None:
    result = await site.run(
        task({**STEEL, "decides": True}, TONE), script(completes("steel and cork"), judged(0.1))
    )
    assert (result.outcome, result.reason) == ("accepted", "completed")
    assert "all deciding checks pass" in result.explanation


BAD: Sequence[Reply] = [{"when": {"role": "evaluator"}, "text": "Nice work!"}] * 2


async def test_a_judge_without_a_verdict_is_no_score(site: Installation) -> None:
    told = {"role": "manager", "contains": "could not be scored"}
    result = await site.run(
        task(TONE), script(completes("one"), *BAD, {**completes("two"), "when": told}, *BAD)
    )
    assert (result.outcome, result.reason) == ("failed", "evaluator_failed")
    assert "no usable verdict in 2 replies" in result.explanation
    assert "no usable verdict in 2 replies" in (result.iterations[0].error or "")
    assert [record.evaluation for record in result.iterations] == ["failed", "failed"]
    assert [record.score for record in result.iterations] == [None, None]
    assert (result.output, result.quality_met) == ("two", False), "what there is, unscored"
    await books_of_the_tree_agree(site, result)


async def test_a_judge_that_recovers_decides(site: Installation) -> None:
    result = await site.run(
        task(TONE), script(completes("one"), *BAD, completes("two"), judged(0.9))
    )
    assert (result.outcome, result.output) == ("accepted", "two")


async def test_the_judges_share_of_the_budget(site: Installation) -> None:
    result = await site.run(
        task(TONE, budget={"tokens": 50_000}, delegation={"evaluator_share": 0.01}),
        script(completes("steel")),
    )
    assert (result.outcome, result.reason) == ("out_of_budget", "tokens")
    assert "delegation.evaluator_share" in result.explanation
    assert (result.output, result.partial, result.quality_met) == ("steel", True, False)
    assert result.spend.model_calls == 1, "neither a judge nor a wrap-up: there is a whole result"
    await books_of_the_tree_agree(site, result)


@pytest.mark.long
async def test_sub_managers_are_not_measured_by_it(site: Installation) -> None:
    result = await site.run(
        task(TONE),
        script(
            delegates("w1", by="m1"),
            completes("a part", by="m1"),
            works("w1"),
            delegates("m1", sub_manager=True),
            completes("the whole"),
            judged(0.9, when={"contains": "the whole"}),
        ),
    )
    assert (result.outcome, result.output) == ("accepted", "the whole")
    await books_of_the_tree_agree(site, result)


def written(worker: str, text: str, *, over: str = "absent") -> tuple[Reply, Reply]:
    """A worker that writes the file `a.md`, and then says so."""
    one = call("fs.write", path="a.md", content=text, expected_hash=over)
    return {**calls(one), "when": {"role": "worker", "worker": worker}}, works(worker)


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, object]:
    """A task whose result is the file `a.md` of a folder."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return {
        "workspace": str(folder),
        "tools": {"access": "full", "allow": ["fs.*"]},
        "delegation": {
            "deliverables": ["a.md"],
            "evaluation": {"accept": 1, "warn": 1, "repair": 0},
        },
    }


WOOD = sha256(b"wood").hexdigest()


@pytest.mark.long
async def test_files_are_part_of_what_is_scored(
    site: Installation, shop: dict[str, object]
) -> None:
    result = await site.run(
        task(STEEL, LENGTH, **shop),
        script(
            delegates("w1"), *written("w1", "wood"),
            completes("Written."),
            {**delegates("w2"), "when": {"role": "manager", "contains": "steel:"}},
            *written("w2", "steel and cork", over=WOOD),
            completes("Written again."),
        ),
    )  # fmt: skip
    assert result.outcome == "accepted", result.explanation
    patch = next(item.ref for item in result.artifacts if item.kind == "patch")
    assert "+steel and cork" in await site.parts.stores.blobs.get_text(patch)


@pytest.mark.long
@needs_bubblewrap
async def test_programs_look_at_the_files(bare: Installation, shop: dict[str, object]) -> None:
    found = {"check": "command", "argv": ["grep", "-q", "cork", "a.md"]}
    async with bare.worker(allow_commands=("grep",)):
        result = await bare.run(
            task({"name": "cork", "evaluator": found}, **shop),
            script(
                delegates("w1"), *written("w1", "wood"),
                completes("Written, with a cork."),
                {**delegates("w2"), "when": {"role": "manager", "contains": "exit code 1"}},
                *written("w2", "steel and cork", over=WOOD),
                completes("Written again."),
            ),
        )  # fmt: skip
    assert result.outcome == "accepted", result.explanation
    assert [record.score for record in result.iterations] == [0.7, 0.0, 0.7, 1.0]


async def test_a_person_scores_what_is_handed_over(site: Installation) -> None:
    asked = {"name": "taste", "evaluator": {"human": {"prompt": "Do you like it?"}}}
    run = await site.start(task(asked, TONE), script(completes("steel"), judged(0.8)))
    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None
    assert (gate.kind, gate.scores) == ("review", ("taste",))
    await answer(site, run, gate, "taste: 1")
    result = await site.gateway.result(run)
    assert (result.outcome, result.iterations[-1].score) == ("accepted", 0.9)


async def test_a_question_to_a_person_outlasts_the_execution(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """The gates were passed and the judge was asked before the roll; neither happens again."""
    asked = {"name": "taste", "evaluator": {"human": {}}}
    address = server.client.service_client.config.target_host
    timing = Timing(roll_messages=60)
    async with (
        installation(tmp_path / "rolling", address, timing=timing) as rolling,
        rolling.worker(),
    ):
        run = await rolling.start(task(asked, TONE), script(completes("steel"), judged(0.8)))
        await eventually(lambda: gate_of(rolling, run))
        gate, handle = await gate_of(rolling, run), rolling.handle(run)
        first = (await handle.describe()).run_id
        await asyncio.gather(*(handle.signal("resume", Resume()) for _ in range(80)))

        async def rolled() -> bool:
            return (await handle.describe()).run_id != first

        await eventually(rolled)
        assert gate is not None
        await rolling.gateway.verb(run, Answer(gate=gate.id, text="taste: 1", by="ada"))
        result = await rolling.gateway.result(run)
    assert (result.outcome, result.iteration_count) == ("accepted", 1)
    assert result.iterations[0].score == 0.9
    assert result.spend.model_calls == 2, "one manager, one judge"


async def test_a_stop_while_a_person_is_asked_keeps_the_result(site: Installation) -> None:
    asked = {"name": "taste", "evaluator": {"human": {}}}
    run = await site.start(task(asked), script(completes("steel")))
    await eventually(lambda: gate_of(site, run))
    await site.gateway.verb(run, Stop(mode="now", by="test"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.output, result.quality_met) == ("stopped", "steel", False)


async def test_a_rubric_that_cannot_be_used_is_refused(site: Installation) -> None:
    bad = {"name": "form", "evaluator": {"check": "regex", "pattern": "("}}
    with pytest.raises(InvalidInput, match=r"rubric\[0\]"):
        await site.start(task(bad), script(decides("fail", why="never asked")))
