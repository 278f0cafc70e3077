"""Whoever stops a run that asks for money has stopped it: the budget did not end it."""

from collections.abc import Mapping

import pytest
from delegating import completes, delegates, delegation, script, works
from installation import Installation
from refining import drafts, spec
from stages import open_gate
from teams import PAIR, says, team
from teams import script as stages
from teams import task as roles_task

from perdure.domain.run.events import Event
from perdure.domain.run.messages import EventsQuery, Stop

ASK: Mapping[str, object] = {"model_calls": 1, "on_exhausted": "ask"}
AGENT = {"kind": "agent", "goal": "look", "learn": False, "tools": {"access": "readonly"}}
LIST = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
CODED = says("coder", "I wrote it.", times=9)
RUNS: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "refine": ({**spec(max_iterations=3), "budget": ASK}, {"replies": drafts(0.2, 0.3)}),
    "roles": ({**roles_task(team(*PAIR)), "budget": ASK}, stages([CODED])),
    "delegation": (
        delegation(budget={**ASK, "model_calls": 2}),
        script(delegates("w1"), works("w1"), completes()),
    ),
    "agent": (
        {**AGENT, "budget": {"tool_calls": 1, "on_exhausted": "ask"}},
        {"replies": [LIST, LIST, {"text": "done"}]},
    ),
}
CASES = [
    pytest.param(kind, mode, marks=[] if quick else pytest.mark.slow)
    for kind in RUNS
    for mode, quick in (("graceful", kind in {"delegation", "roles"}), ("now", kind == "refine"))
]


@pytest.mark.parametrize(("kind", "mode"), CASES)
async def test_a_stop_where_money_is_asked_for_is_a_stop(
    site: Installation, kind: str, mode: str
) -> None:
    given, replies = RUNS[kind]
    run = await site.start(given, replies)
    assert (await open_gate(site, run)).kind == "budget"
    paid = (await site.status(run)).budget.model_calls
    await site.gateway.verb(run, Stop.model_validate({"mode": mode}))
    result = await site.gateway.result(run)

    assert (result.outcome, result.reason) == ("stopped", "stopped")
    closing_text = (kind, mode) == ("agent", "graceful")
    assert result.spend.model_calls == paid + closing_text, "nothing else is paid for after a stop"
    told = await site.handle(run).query("events", EventsQuery(), result_type=list[Event])
    decided = [event.data["decision"] for event in told if event.type == "decided"]
    assert "abort_budget" not in decided
    assert "abort_budget" not in [record.decision for record in result.iterations]
