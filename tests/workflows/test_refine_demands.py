"""A score counts for the goal and the guidance that it was given by, and for no others."""

import pytest
from holding import HELD, Holding
from installation import Installation
from refining import TONE, WORDS_CHECK, draft, judge_prompts, judged, spec, verdict, written

from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.messages import AddInput, Amend
from perdure.domain.run.result import RunResult

FIRST, SECOND = draft(1.0, "first"), draft(1.0, "second")
TOLD = [
    pytest.param(Amend(goal="Name ten animals."), "Name ten animals.", id="goal"),
    pytest.param(Amend(guidance="only conifers"), "only conifers", id="guidance"),
    pytest.param(AddInput(text="only conifers"), "only conifers", id="input"),
]


async def _told(
    site: Installation, holding: Holding, told: Amend | AddInput, drafts: tuple[str, ...]
) -> tuple[str, RunResult]:
    """A run that hears something while its first draft, a very good one, is judged."""
    held = {**judged(verdict(1.0))[0], "delay_s": HELD}
    replies = [*written(*drafts), held, *judged(verdict(0.2), verdict(0.4))]
    task = spec([WORDS_CHECK, TONE], max_iterations=2, improvement_threshold=None)
    run = await site.start(task, {"replies": replies})
    await holding.begun()
    await site.gateway.verb(run, told)
    holding.release()
    return run, await site.gateway.result(run)


@pytest.mark.parametrize(("told", "text"), TOLD)
async def test_a_draft_from_before_is_not_the_best_by_its_old_score(
    site: Installation, holding: Holding, told: Amend | AddInput, text: str
) -> None:
    run, result = await _told(site, holding, told, (FIRST, SECOND))
    assert result.output == SECOND
    assert [record.score for record in result.iterations] == [1.0, 0.7]
    demanded = [text in prompt for prompt in await judge_prompts(site, run)]
    assert demanded == [False, True, True]


async def test_the_same_text_is_judged_by_what_was_said_since(
    site: Installation, holding: Holding
) -> None:
    told = Amend(guidance="only conifers")
    _, result = await _told(site, holding, told, (FIRST, FIRST))
    assert [record.score for record in result.iterations] == [1.0, 0.6]
    assert not result.quality_met


async def test_what_is_said_while_the_best_is_scored_anew_is_before_the_judge(
    site: Installation, holding: Holding
) -> None:
    # The draft in flight is written once more, with what was said meanwhile.
    first, second, third = written(FIRST, FIRST, FIRST)
    held = {**judged(verdict(0.9))[0], "delay_s": HELD}
    replies = [first, {**second, "delay_s": HELD}, third, *judged(verdict(1.0)), held]
    task = spec([WORDS_CHECK, TONE], max_iterations=2, min_iterations=2)
    run = await site.start(task, {"replies": [*replies, *judged(verdict(0.2))]})
    await holding.begun()
    await site.gateway.verb(run, Amend(guidance="only conifers"))
    holding.release()
    holding.hold()
    await holding.begun(2)
    await site.gateway.verb(run, Amend(guidance="in Latin"))
    holding.release()
    await site.gateway.result(run)
    prompts = await judge_prompts(site, run)
    assert ["in Latin" in prompt for prompt in prompts] == [False, False, True]


async def test_a_fork_with_another_goal_scores_the_best_anew(site: Installation) -> None:
    task = spec([WORDS_CHECK, TONE], max_iterations=1, quality_threshold=0.99)
    replies = [*written(FIRST), *judged(verdict(0.9))]
    run = await site.start(task, {"replies": replies})
    await site.gateway.result(run)
    told = await site.gateway.fork_spec(run, 1)
    assert isinstance(told, RefineSpec)
    replies = [*written(SECOND), *judged(verdict(0.2), verdict(0.4))]
    model = await site.script({"replies": replies})
    changes = {
        "goal": "Name ten animals.",
        "models": told.models.model_copy(update={"executor": model, "evaluator": model}),
        "refine": told.refine.model_copy(update={"max_iterations": 2}),
    }
    fork = await site.gateway.fork(run, 1, told.model_copy(update=changes))
    result = await site.gateway.result(fork)
    assert result.output == SECOND
    assert [record.score for record in result.iterations] == [0.95, 0.7]
    demanded = ["Name ten animals." in prompt for prompt in await judge_prompts(site, fork)]
    assert demanded == [True, True]
