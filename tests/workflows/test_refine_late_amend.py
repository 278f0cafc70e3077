"""What is amended while the last evaluation is in flight still decides how the run goes on."""

import pytest
from holding import HELD, Holding
from installation import Installation
from pydantic import JsonValue
from refining import TONE, WORDS_CHECK, draft, prompt_of, spec, verdict, written

from perdure.domain.run.messages import Amend
from perdure.domain.run.result import RunResult

ZEBRA: dict[str, JsonValue] = {
    "name": "zebra",
    "evaluator": {"check": "contains", "all": ["zebra"]},
}
OAK: dict[str, JsonValue] = {"name": "oak", "evaluator": {"check": "contains", "all": ["oak"]}}


async def _amended(
    site: Installation, holding: Holding, amend: Amend, **settings: object
) -> RunResult:
    """A run that would accept its first draft, amended while that is judged."""
    held = {"when": {"role": "evaluator"}, "json": verdict(1.0), "delay_s": HELD}
    more = {"when": {"role": "evaluator"}, "json": verdict(1.0), "times": 3}
    replies = [*written(draft(1.0), f"{draft(1.0)} zebra"), held, more]
    run = await site.start(spec([WORDS_CHECK, TONE], **settings), {"replies": replies})
    await holding.begun()
    await site.gateway.verb(run, amend)
    holding.release()
    return await site.gateway.result(run)


def _seen(result: RunResult) -> list[tuple[str | None, float | None, list[str]]]:
    return [(one.decision, one.score, list(one.dimensions)) for one in result.iterations]


@pytest.mark.long
async def test_a_rubric_that_the_draft_fails_has_another_one_written(
    site: Installation, holding: Holding
) -> None:
    result = await _amended(site, holding, Amend(rubric=[ZEBRA]))
    assert (result.outcome, result.quality_met) == ("accepted", True)
    assert _seen(result) == [("continue", 0.0, ["zebra"]), ("accept", 1.0, ["zebra"])]


@pytest.mark.long
async def test_a_rubric_that_the_draft_passes_accepts_it(
    site: Installation, holding: Holding
) -> None:
    result = await _amended(site, holding, Amend(rubric=[OAK]))
    assert (result.outcome, result.output) == ("accepted", draft(1.0))
    assert _seen(result) == [("accept", 1.0, ["oak"])]


@pytest.mark.long
async def test_a_rubric_after_the_last_draft_is_not_said_to_be_met(
    site: Installation, holding: Holding
) -> None:
    result = await _amended(site, holding, Amend(rubric=[ZEBRA]), max_iterations=1)
    assert (result.outcome, result.quality_met) == ("best_effort", False)
    assert (result.output, len(result.iterations)) == (draft(1.0), 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("amend", "text"),
    [
        pytest.param(Amend(goal="Name ten animals."), "Name ten animals.", id="goal"),
        pytest.param(Amend(guidance="only conifers"), "only conifers", id="guidance"),
    ],
)
async def test_what_was_said_is_read_or_told_to_be_unread(
    site: Installation, holding: Holding, amend: Amend, text: str
) -> None:
    read = await _amended(site, holding, amend)
    assert [one.decision for one in read.iterations] == ["continue", "accept"]
    prompt = await prompt_of(site, read.iterations[-1].transcript)
    assert sum(text in message for _, message in prompt) == 1
    assert read.unread_input == ()

    holding.hold()
    holding.waiting = 0
    unread = await _amended(site, holding, amend, max_iterations=1)
    assert (unread.outcome, unread.unread_input) == ("accepted", (text,))


@pytest.mark.long
async def test_what_was_said_in_the_last_iteration_of_a_termination_tree_is_unread(
    site: Installation, holding: Holding
) -> None:
    tree = {"type": "max_iterations", "limit": 1}
    unread = await _amended(site, holding, Amend(guidance="only conifers"), termination=tree)
    assert (unread.outcome, unread.reason) == ("best_effort", "max_iterations")
    assert (len(unread.iterations), unread.unread_input) == (1, ("only conifers",))


@pytest.mark.long
async def test_a_score_by_a_new_rubric_is_no_fall_from_the_old_one(
    site: Installation, holding: Holding
) -> None:
    texts = written(draft(0.5), draft(1.0), f"{draft(1.0)} zebra")
    held = {"when": {"role": "evaluator"}, "json": verdict(1.0), "delay_s": HELD}
    replies = [*texts, {**held, "delay_s": 0}, {**held, "times": 4}]
    task = spec([WORDS_CHECK, TONE], quality_threshold=0.9, max_iterations=3)
    run = await site.start(task, {"replies": replies})
    await holding.begun()
    await site.gateway.verb(run, Amend(rubric=[ZEBRA]))
    holding.release()
    result = await site.gateway.result(run)
    decided = [(one.decision, one.score) for one in result.iterations]
    assert decided == [("continue", 0.75), ("continue", 0.0), ("accept", 1.0)]
