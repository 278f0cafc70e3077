"""One run of each kind with a scripted model: a reply in the middle of each may be held back."""

from collections.abc import Mapping
from dataclasses import dataclass

import agent_runs
import delegating
import refining
import teams
from installation import Installation
from waiting import eventually

from perdure.domain.run.result import RunResult

Reply = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Told:
    """What must be the same of a run whatever happened around it."""

    kind: str
    outcome: str
    reason: str
    output: str | None
    iterations: int
    tokens: int
    calls: int


def told(result: RunResult) -> Told:
    """What a disturbed run is compared by."""
    return Told(
        kind=result.kind,
        outcome=result.outcome,
        reason=result.reason,
        output=result.output,
        iterations=result.iteration_count,
        tokens=result.spend.tokens,
        calls=result.spend.model_calls,
    )


async def start_mixed(
    site: Installation, *, middle_s: float = 0.0, learn: bool = False
) -> dict[str, str]:
    """Start one run of each kind and return their ids; the middle reply of each takes so long."""
    more = {"learn": True, "recall": True} if learn else {}
    return {
        kind: await site.start({**spec, **more}, script)
        for kind, (spec, script) in _plays(middle_s).items()
    }


async def results_of(site: Installation, runs: Mapping[str, str]) -> dict[str, Told]:
    """What the runs came to, once all have ended."""
    return {kind: told(await site.gateway.result(run)) for kind, run in runs.items()}


async def at_rest(site: Installation) -> None:
    """Wait until no step of any open run is under way or waits for a worker."""

    async def idle(run: str) -> bool:
        raw = (await site.handle(run).describe()).raw_description
        return not raw.pending_activities and not raw.HasField("pending_workflow_task")

    async def resting() -> bool:
        found = [one.run async for one in site.gateway.retained() if one.open]
        return all([await idle(run) for run in found])

    await eventually(resting)
    await eventually(resting)  # one looked at before may have been woken by one looked at later


def _plays(middle_s: float) -> dict[str, tuple[dict[str, object], dict[str, object]]]:
    slow = {"delay_s": middle_s} if middle_s else {}
    look: Reply = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
    return {
        "agent": (
            agent_runs.task(),
            {"replies": [look, {**look, **slow}, {"text": "Nothing is there."}]},
        ),
        "refine": (
            refining.spec(),
            {"replies": _slow_second(refining.drafts(0.4, 0.7, 1.0), slow)},
        ),
        "roles": (
            teams.task(teams.team(*teams.PAIR)),
            teams.script([
                teams.says("coder", "A draft."),
                teams.says("reviewer", teams.rejected("dull"), **slow),
                teams.says("coder", "A better draft."),
                teams.says("reviewer", teams.APPROVED),
            ]),
        ),
        "delegation": (
            delegating.delegation(),
            delegating.script(
                delegating.delegates("colour", "weight"),
                delegating.works("colour", "blue", **slow),
                delegating.works("weight", "light"),
                delegating.completes("A light, blue bottle."),
            ),
        ),
    }  # fmt: skip


def _slow_second(replies: list[dict[str, object]], slow: Mapping[str, object]) -> list[Reply]:
    return [{**reply, **slow} if at == 1 else reply for at, reply in enumerate(replies)]
