"""After an accepted stop a run ends stopped, after its deadline by it, whatever arrives later."""

from collections.abc import Mapping

import delegating
import pytest
import refining
import teams
from holding import HELD, Holding
from installation import Installation
from steered import spec
from waiting import eventually

from perdure.domain.run.messages import Stop

LAST = {"delay_s": HELD}
KINDS: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "agent": (spec(), {"replies": [{"text": "All done.", **LAST}]}),
    "refine": (refining.spec(), {"replies": [{"text": refining.draft(1.0), **LAST}]}),
    "roles": (
        teams.task(teams.team(*teams.PAIR)),
        teams.script(
            [teams.says("coder", "draft"), teams.says("reviewer", teams.APPROVED, **LAST)]
        ),
    ),
    "delegation": (
        delegating.delegation(),
        delegating.script(
            delegating.delegates("one"), delegating.works("one"), {**delegating.completes(), **LAST}
        ),
    ),
}
FAILS = {"error": {"status": 400, "message": "no such thing"}, **LAST}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_arrives_after_a_stop_changes_nothing_of_the_end(
    site: Installation, holding: Holding, kind: str
) -> None:
    given, script = KINDS[kind]
    run = await site.start(given, script)
    await holding.begun()
    await site.gateway.verb(run, Stop(by="me"))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    calls = len(await site.parts.stores.journal.tree(root=run, run=run))
    assert result.spend.model_calls == calls, "what arrived is counted"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failure_after_a_stop_is_no_failed_run(
    site: Installation, holding: Holding, kind: str
) -> None:
    given, script = KINDS[kind]
    *before, last = list(script["replies"])  # type: ignore[call-overload]
    failing = {**{name: last[name] for name in ("when",) if name in last}, **FAILS}
    run = await site.start(given, {**script, "replies": [*before, failing]})
    await holding.begun()
    await site.gateway.verb(run, Stop(by="me"))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["stop now", "deadline"])
async def test_an_end_at_once_is_told_as_it_was_asked(
    site: Installation, holding: Holding, kind: str, mode: str
) -> None:
    given, script = KINDS[kind]
    limits = {"budget": {"wall_time": 3.0}} if mode == "deadline" else {}
    run = await site.start({**given, **limits}, script)
    await holding.begun()
    if mode == "stop now":
        await site.gateway.verb(run, Stop(by="me", mode="now"))
    await eventually(lambda: _ended(site, run))
    holding.release()
    result = await site.gateway.result(run)
    ends = {"stop now": ("stopped", "stopped"), "deadline": ("deadline", "wall_time")}
    assert (result.outcome, result.reason) == ends[mode]


async def _ended(site: Installation, run: str) -> bool:
    return (await site.status(run)).outcome is not None
