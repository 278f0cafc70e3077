"""A run that is edited while it goes on: each kind takes the new goal and the new limit."""

import pytest
from delegating import completes, delegates, delegation, works
from holding import HELD, Holding
from installation import Installation
from refining import drafts, spec
from teams import PAIR, rejected, says, task, team

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Amend

GOAL = "Name ten rivers."


async def asked(site: Installation, run: str, goal: str) -> list[int]:
    """In which iterations a prompt had this goal."""
    found: list[int] = []
    for record in await site.records(run):
        if record.transcript is None:
            continue
        messages = await site.parts.stores.transcripts.load(record.transcript)
        if any(goal in message.text for message in messages):
            found.append(record.index)
    return found


def slowly(replies: list[dict[str, object]]) -> dict[str, object]:
    return {"replies": [{**replies[0], "delay_s": HELD}, *replies[1:]], "exhausted": "repeat_last"}


async def test_a_refine_run_goes_on_with_goal_and_limit(
    site: Installation, holding: Holding
) -> None:
    settings = {"max_iterations": 5, "improvement_threshold": None, "patience": 9}
    run = await site.start(spec(**settings), slowly(drafts(0.1, 0.2, 0.3, 0.4, 0.5)))
    await holding.begun()
    await site.gateway.verb(run, Amend(goal=GOAL, max_iterations=3))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.reason, result.iteration_count) == ("max_iterations", 3)
    assert await asked(site, run, GOAL) == [2, 3]
    assert (await site.status(run)).goal == GOAL


async def test_roles_count_to_the_new_limit(site: Installation, holding: Holding) -> None:
    replies = [
        {**says("coder", "draft"), "delay_s": HELD},
        says("reviewer", rejected("a")),
        {"when": {"role": "coder", "contains": GOAL}, "text": "again"},
        says("reviewer", rejected("b")),
    ]
    run = await site.start(task(team(*PAIR)), {"replies": replies})
    await holding.begun()
    await site.gateway.verb(run, Amend(goal=GOAL, max_iterations=2))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.reason, result.iteration_count) == ("max_iterations", 2)
    status = await site.status(run)
    assert (status.goal, status.iteration_limit) == (GOAL, 2)


async def test_a_manager_is_told_the_new_goal(site: Installation, holding: Holding) -> None:
    replies = [
        {**delegates("w1"), "delay_s": HELD},
        works("w1"),
        {"when": {"role": "manager", "contains": GOAL}, **_reply(completes("the Rhine"))},
    ]
    run = await site.start(delegation(), {"replies": replies})
    await holding.begun()
    await site.gateway.verb(run, Amend(goal=GOAL))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "the Rhine")


def _reply(entry: object) -> dict[str, object]:
    assert isinstance(entry, dict)
    return {name: value for name, value in entry.items() if name != "when"}


async def test_a_limit_below_what_is_done_is_refused(site: Installation, holding: Holding) -> None:
    settings = {"max_iterations": 5, "improvement_threshold": None, "patience": 9}
    replies = [*drafts(0.1, 0.2), {**drafts(0.3)[0], "delay_s": HELD}]
    run = await site.start(spec(**settings), {"replies": replies, "exhausted": "repeat_last"})
    await holding.begun()
    with pytest.raises(NotAllowed, match="2 iterations are complete"):
        await site.gateway.verb(run, Amend(max_iterations=1))
    await site.gateway.verb(run, Amend(max_iterations=3))
    holding.release()
    assert (await site.gateway.result(run)).iteration_count == 3


@pytest.mark.long
async def test_nobody_cuts_a_loop_loose_from_the_agent_that_started_it(
    site: Installation, holding: Holding
) -> None:
    replies = [{**says("coder", "draft"), "delay_s": HELD}, says("reviewer", rejected("a"))]
    own = {"metadata": {"started_by": "agent-above", "root_run": "agent-above"}}
    run = await site.start(
        {**task(team(*PAIR)), **own}, {"replies": replies, "exhausted": "repeat_last"}
    )
    await holding.begun()
    freeing = Amend(metadata={"started_by": None})
    with pytest.raises(NotAllowed, match=r"metadata\.started_by"):
        await site.gateway.verb(run, freeing)
    # A client of the server can send it as a signal, which nothing refuses before it is read.
    await site.client.get_workflow_handle(run).signal("amend", freeing)
    holding.release()
    await site.gateway.verb(run, Amend(max_iterations=1))
    await site.gateway.result(run)
    assert (await site.status(run)).metadata == own["metadata"]
