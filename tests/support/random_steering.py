"""Random verbs at random moments to real runs of all kinds, and what must hold after it.

One seed decides tasks, answers of the model, verbs, kills and stalls; only the timing of the
machine is not in its hand.
"""

import asyncio
import itertools
import json
import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from errands import KINDS, Models, errand, number_of
from ground import Ground
from installation import WorkerProcess
from invariants import Injected, check, executions, healthy
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from perdure.adapters.stores.open_stores import DATABASE_FILE
from perdure.domain.evaluation.outcomes import lifecycle
from perdure.domain.foundation.errors import NotAllowed, PerdureError
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.llm.usage import Usage
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import (
    VERB_OF,
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Pause,
    Receipt,
    Resume,
    Retry,
    Stop,
)
from perdure.domain.run.result import RunResult
from perdure.domain.specs import RUN_SPEC

STORE_AWAY_S = 3.0
GARBAGE: Sequence[object] = (
    None, {}, [], "", 7, {"no": "such field"}, {"gate": None}, {"budget": {"tokens": -1}},
    {"budget": {"no_such": 1}}, {"mode": "softly"}, {"text": "x" * 9_000}, {"by": 5},
)  # fmt: skip
SIGNALS = (
    "pause", "resume", "stop", "escalate", "answer", "approve", "deny", "amend", "add_input",
    "retry", "no_such_verb",
)  # fmt: skip
# What is a valid message even when it is empty.
WHOLE_WHEN_EMPTY = {"stop", "resume", "pause", "escalate"}
SETTLES = ("approve", "accept", "end", "stop", "continue")


@dataclass
class Steered:
    """One run, and what it has accepted."""

    run: str
    number: int
    kind: str
    stopped: bool = False
    texts: list[str] = field(default_factory=list)
    answered: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    removed: bool = False
    over: bool = False
    log: list[str] = field(default_factory=list)


class Steering:
    """Sends what chance decides to runs that are at work.

    Args:
        ground: where they run.
        worker: is killed now and then.
        seed: decides.
    """

    def __init__(self, ground: Ground, worker: WorkerProcess, *, seed: int) -> None:
        self.ground = ground
        self.worker = worker
        self.seed = seed
        self.models = Models(seed)
        self.runs: list[Steered] = []
        self.kills = 0
        self.sent = 0
        self.requests = itertools.count(1)
        self.wrong: list[str] = []

    async def start(self, count: int) -> None:
        """Start runs of all kinds in turn."""
        self.ground.provider.choose = self.models.play
        for _ in range(count):
            await self._start()

    async def _start(self) -> None:
        number = len(self.models.kinds)
        kind = KINDS[number % len(KINDS)]
        self.models.kinds[number] = kind
        run = await self.ground.site.start(errand(number, kind))
        self.runs.append(Steered(run, number, kind))

    async def steer(self, seconds: float, *, faults: bool) -> None:
        """Say something to some run, again and again; several clients at once."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        async with asyncio.TaskGroup() as group:
            for client in range(3):
                group.create_task(self._client(client, lambda: clock() < until))
            if faults:
                group.create_task(self._faults(lambda: clock() < until))

    async def _client(self, client: int, goes_on: Callable[[], bool]) -> None:
        chance = random.Random(f"{self.seed} client {client}")
        while goes_on():
            await asyncio.sleep(chance.uniform(0.0, 0.15))
            one = chance.choice([one for one in self.runs if not one.over])
            with suppress(RPCError, PerdureError):
                kind = chance.random()
                if kind < 0.01:
                    one.log.append("cancelled")
                    await self.ground.site.handle(one.run).cancel()
                elif kind < 0.2:
                    await self._garbage(one, chance)
                else:
                    await self._verb(one, await self._message(one, chance), chance)

    async def _faults(self, goes_on: Callable[[], bool]) -> None:
        chance = random.Random(f"{self.seed} faults")
        while goes_on():
            await asyncio.sleep(chance.uniform(1.0, 5.0))
            if chance.random() < 0.5:
                self.kills += 1
                await self.worker.kill()
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                await self.worker.start()
            else:
                await asyncio.to_thread(self._stall_store, chance.uniform(0.2, STORE_AWAY_S))

    def _stall_store(self, seconds: float) -> None:
        """Hold the store's write lock for a while."""
        file = self.ground.site.home / DATABASE_FILE
        connection = sqlite3.connect(file, timeout=10, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            connection.execute("ROLLBACK")
        finally:
            connection.close()

    async def _garbage(self, one: Steered, chance: random.Random) -> None:
        verb = chance.choice(SIGNALS)
        given = chance.choice(GARBAGE)
        if verb in WHOLE_WHEN_EMPTY and given in (None, {}, {"by": 5}):
            return
        one.log.append(f"signal {verb} {str(given)[:60]}")
        self.sent += 1
        args = [] if given is None else [given]
        await self.ground.site.handle(one.run).signal(verb, args=args)

    async def _message(self, one: Steered, chance: random.Random) -> AnyMessage:
        self.sent += 1
        unique = f"said-{one.number}-{self.sent}."
        roll = chance.random()
        if roll < 0.25:
            gates = (await self.ground.site.status(one.run)).gates
            if gates:
                return self._answer(chance.choice(gates), chance)
            return Resume(by="r")
        if roll < 0.40:
            return Pause(by="r")
        if roll < 0.60:
            return Resume(by="r")
        if roll < 0.63:
            return Stop(by="r", mode=chance.choice(("graceful", "now")))
        if roll < 0.72:
            return Escalate(by="r", note=unique)
        if roll < 0.84:
            return AddInput(by="r", text=unique)
        if roll < 0.86:
            return Retry(by="r")
        return self._amend(one, unique, chance)

    def _amend(self, one: Steered, unique: str, chance: random.Random) -> Amend:
        return chance.choice((
            Amend(by="r", budget={"tokens": chance.randint(2_000, 90_000)}),
            Amend(by="r", budget={"model_calls": chance.randint(1, 30)}),
            Amend(by="r", guidance=unique),
            Amend(by="r", goal=f"Errand {one.number} of many, {unique}"),
            Amend(by="r", max_iterations=chance.randint(1, 12)),
            Amend(by="r", metadata={"label": f"l{chance.randint(0, 9)}"}),
            Amend(by="r", remove=(1,)),
        ))  # fmt: skip

    def _answer(self, gate: Gate, chance: random.Random) -> Answer:
        return Answer(
            gate=gate.name,
            choice=chance.choice((*gate.choices, *gate.choices[:1], "no such choice")),
            text=chance.choice((None, "by the way")),
            args_hash=gate.args_hash,
            by=f"r{chance.randint(0, 1)}",
        )

    async def _verb(self, one: Steered, message: AnyMessage, chance: random.Random) -> None:
        request = f"q{next(self.requests)}"
        message = message.model_copy(update={"request_id": request})
        times = 2 if chance.random() < 0.15 else 1
        for _ in range(times):
            try:
                receipt = await self.ground.site.gateway.verb(one.run, message)
            except NotAllowed as error:
                one.log.append(f"no   {_brief(message)}: {error.message[:80]}")
                if "ended" in error.message and not one.over:
                    one.over = True
                    await self._start()
                continue
            one.log.append(f"yes  {_brief(message)} {receipt.note}")
            self._note(one, message, receipt)

    def _note(self, one: Steered, message: AnyMessage, receipt: Receipt) -> None:
        match message:
            case Stop():
                one.stopped = True
            case AddInput():
                one.texts.append(message.text)
            case Answer() if not message.gate.count(":"):
                one.answered[message.gate].add(message.request_id or "")
            case Amend(remove=(_, *_)):
                one.removed = True
            case _:
                pass

    async def calm(self, seconds: float) -> None:
        """Answer and resume until all have ended; what has not is wedged."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        left = list(self.runs)
        while left and clock() < until:
            for one in list(left):
                with suppress(PerdureError, RPCError):
                    described = await self.ground.site.handle(one.run).describe()
                    if described.status != WorkflowExecutionStatus.RUNNING:
                        left.remove(one)
                        continue
                    await self._free(one)
            await asyncio.sleep(0.2)
        for one in left:
            status = await self.ground.site.status(one.run)
            self.wrong.append(
                f"{one.run} ({one.kind}) did not end: {status.model_dump_json()[:3000]}"
            )

    async def _free(self, one: Steered) -> None:
        status = await self.ground.site.status(one.run)
        if status.lifecycle == "paused":
            with suppress(NotAllowed):
                await self.ground.site.gateway.verb(one.run, Resume(by="calm"))
        for gate in status.gates:
            choice = next((best for best in SETTLES if best in gate.choices), None)
            said = Answer(
                gate=gate.name, choice=choice, text="go on", args_hash=gate.args_hash, by="calm"
            )
            with suppress(NotAllowed):
                await self.ground.site.gateway.verb(one.run, said)

    async def verify(self) -> list[str]:
        """What is wrong with the runs that have ended."""
        for one in self.runs:
            described = await self.ground.site.handle(one.run).describe()
            if described.status == WorkflowExecutionStatus.RUNNING:
                continue
            try:
                await self._verify(one)
            except AssertionError as error:
                told = " ".join(str(error).split())[:1500]
                self.wrong.append(
                    f"{one.run} ({one.kind}): {told}\n    " + "\n    ".join(one.log[-40:])
                )
        return self.wrong

    async def _verify(self, one: Steered) -> None:
        site = self.ground.site
        result = await site.gateway.result(one.run)
        injected = Injected(kills=self.kills, failed_tasks=20)
        if one.kind == "delegation":
            healthy(await executions(site, one.run), injected)
        else:
            await check(site, one.run, injected=injected)
        await self._books(one, result)
        status = await site.status(one.run)
        limit = status.budget.limits.tokens
        confirmed = result.spend.usage.counted_tokens()
        assert limit is None or confirmed <= limit, f"{confirmed} above {limit}"
        if one.stopped:
            assert result.outcome in {"stopped", "failed", "blocked", "deadline"}, (
                f"stopped, and ended {result.outcome}/{result.reason}"
            )
        bodies = json.dumps(
            [
                [body.get("system"), body["messages"]]
                for body in self.ground.provider.bodies
                if number_of(body) == one.number
            ]
        )
        for text in () if one.removed else one.texts:
            heard = text in bodies or text in " ".join(result.unread_input)
            assert heard, (
                f"{text!r} was accepted, and nobody heard it: {result.outcome}/{result.reason}"
            )
        self._effects(one, result)
        for gate, requests in one.answered.items():
            assert len(requests) == 1, f"{gate} was answered {len(requests)} times"
        for child in status.runs_below:
            closed = await site.handle(child.id).describe()
            assert closed.status != WorkflowExecutionStatus.RUNNING, f"{child.id} is open"
        assert status.lifecycle == lifecycle(result.outcome)
        row = await site.parts.stores.records.run(one.run)
        assert row is not None and row.spec is not None
        stored = read_as(RUN_SPEC, await site.parts.stores.blobs.get(row.spec))
        told = (status.goal, status.label)
        assert (stored.goal, stored.metadata.label) == told, "a retry would begin with other terms"

    def _effects(self, one: Steered, result: RunResult) -> None:
        """A call that is told as done was done, once."""
        if not self.ground.effects.exists():
            return
        lines = [json.loads(row) for row in self.ground.effects.read_text().splitlines()]
        for tool in ("once", "approved"):
            own = [line for line in lines if (line["run"], line["tool"]) == (one.run, tool)]
            rows = [call for record in result.iterations for call in record.calls]
            told = [call.outcome for call in rows if call.name == f"effect.{tool}"]
            least, most = told.count("ok"), len(told) - told.count("denied") - told.count("error")
            assert least <= len(own) <= most, f"{tool}: {told}, and {len(own)} effects"

    async def _books(self, one: Steered, result: RunResult) -> None:
        rows = await self.ground.site.parts.stores.journal.tree(root=one.run, run=one.run)
        booked = sum((row.usage for row in rows), Usage())
        assert result.spend.tokens == booked.counted_tokens(), (
            f"spent {result.spend.tokens}, the journal has {booked.counted_tokens()}"
        )
        assert not [row for row in rows if row.state == "started"], "an attempt was never closed"


def _brief(message: AnyMessage) -> str:
    given = message.model_dump(mode="json", exclude_defaults=True)
    return f"{VERB_OF[type(message)]} {json.dumps(given)[:140]}"
