"""A plugin of hooks for tests; what they were told goes into the file of `HOOK_LEDGER`."""

import json
import os
import signal
from pathlib import Path

from pydantic import JsonValue

from perdure import Adaptation, EndFacts, IterationFacts, adapt, check, on_end, on_iteration


def _noted(*words: object) -> None:
    with Path(os.environ["HOOK_LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(words) + "\n")


@adapt(name="probe.fewer")
def fewer(facts: IterationFacts, by: int = 2) -> dict[str, JsonValue]:
    """Ask for fewer trees in the next iteration."""
    least = facts.adaptation["least"]
    assert isinstance(least, int)
    return {"least": least - by}


@adapt(name="probe.at-odds")
def at_odds(facts: IterationFacts) -> list[str]:
    """Return what is no adaptation, whatever happened."""
    return ["fewer trees"]


@check(name="probe.enough")
def enough(output: str, adaptation: Adaptation) -> tuple[float, str]:
    """Whether there are as many trees as the iteration asks for."""
    least, found = adaptation["least"], len(output.split())
    assert isinstance(least, int)
    return min(1.0, found / least), f"{found} of {least} trees"


@on_iteration(name="probe.tell")
async def tell(facts: IterationFacts) -> None:
    """Note the iteration."""
    _noted("iteration", facts.iteration, facts.score, facts.output, facts.idempotency_key)


@on_end(name="probe.bury")
def bury(facts: EndFacts) -> None:
    """Note the end."""
    _noted("end", facts.outcome, facts.output, facts.idempotency_key)


@on_end(name="probe.stumble")
def stumble(facts: EndFacts) -> None:
    """Note the attempt, and fail."""
    _noted("stumble", facts.idempotency_key)
    raise OSError("nobody listens")


@on_end(name="probe.die-once")
def die_once(facts: EndFacts) -> None:
    """Kill the worker that calls it first; the next one notes the end."""
    first = not Path(os.environ["HOOK_LEDGER"]).exists()
    _noted("end", facts.outcome, facts.idempotency_key)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
