"""The runs of a soak: five kinds, and a provider that plays all their models and keeps the ledger.

Everything is told from the prompt, so that a call that is made again gets the same answer.
"""

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from provider import MODEL, Play
from refining import draft, spec
from short_retention import LABEL
from teams import APPROVED, rejected, stage, task, team

Kind = Literal["agent", "writer", "refine", "roles", "delegation"]
KINDS: tuple[Kind, ...] = ("agent", "writer", "refine", "roles", "delegation")
TASK = re.compile(r"Task (\d+) of a soak")
PARTS = ("part-0.txt", "part-1.txt", "part-2.txt")
TURNS = 4
SCORES = (0.4, 0.7, 1.0)
SHARED_SCORES = (0.1, 0.1, 0.4)
TOKENS = 400_000
WRITES = {"access": "full", "allow": ["fs.write", "fs.list"], "repeat_exempt": ["fs.list"]}
DELAY_S = (0.1, 1.5)
Body = Mapping[str, object]


def kind_of(number: int) -> Kind:
    """Of which kind a task is."""
    return KINDS[number % len(KINDS)]


def task_of(number: int) -> dict[str, object]:
    """The task of that number."""
    kind = kind_of(number)
    common: dict[str, object] = {
        "goal": f"Task {number} of a soak.",
        "models": {"executor": MODEL},
        "learn": False,
        "budget": {"tokens": TOKENS},
        # Every other run is kept for a moment only, once it has ended.
        "metadata": {"tenant": f"tenant-{number % 3}", "label": LABEL if number % 2 else "kept"},
    }
    match kind:
        case "agent":
            return {"kind": "agent", **common}
        case "writer":
            return {"kind": "agent", "tools": WRITES, **common}
        case "refine":
            return {**spec(), **common}
        case "roles":
            return {**task(team(stage("coder"), stage("reviewer"))), **common}
        case "delegation":
            return {
                "kind": "delegation",
                "tools": {"access": "minimal"},
                "delegation": {"critique": {"enabled": False}},
                **common,
            }


def number_of(body: Body) -> int:
    """Whose call a request is; a fork goes on from the conversation of another task."""
    found = TASK.findall(json.dumps([body.get("system"), body["messages"]]))
    assert found, "every prompt names its task"
    return int(found[-1])


@dataclass
class Models:
    """Chooses the answers.

    Attributes:
        refusing: set while the provider refuses most calls.
        broken: tasks whose calls it refuses for good.
        shared: tasks that several runs have, so that a place in their order means nothing.
    """

    seed: int
    refusing: bool = False
    broken: set[int] = field(default_factory=set)
    shared: set[int] = field(default_factory=set)
    _seen: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def play(self, body: dict[str, object]) -> Sequence[Play]:
        """What a call gets, attempt by attempt."""
        number = number_of(body)
        if number in self.broken:
            return [Play(status=400, error="invalid_request_error")]
        answer = self._answers[kind_of(number)](self, number, body)
        chance = random.Random(f"{self.seed} {number} {_digest(body)}")
        answer = Play(text=answer.text, calls=answer.calls, delay_s=chance.uniform(*DELAY_S))
        if self.refusing and chance.random() < 0.8:
            return [
                Play(status=429, error="rate_limit_error", headers={"retry-after": "1"}),
                answer,
            ]
        moods = [
            Play(status=529, error="overloaded_error"),
            Play(text="half", end="cut"),
            *[answer] * 18,
        ]
        return [chance.choice(moods), answer]

    def _agent(self, number: int, body: Body) -> Play:
        turn = json.dumps(body["messages"]).count('"tool_result"')
        if turn >= TURNS - 1:
            return Play(text="done")
        tool = ("effect.once", "effect.again")[turn % 2]
        return Play(text="", calls=[(tool, {"word": f"{number}-{turn}"})])

    def _writer(self, number: int, body: Body) -> Play:
        """Looks, writes what is lacking, and looks again."""
        listed = _last_list(body)
        if listed is None:
            return Play(text="", calls=[("fs.list", {"path": "."})])
        lacking = [name for name in PARTS if name not in listed]
        if not lacking:
            return Play(text="all there")
        content = {"path": lacking[0], "content": f"of {number}", "expected_hash": "absent"}
        return Play(text="", calls=[("fs.write", content)])

    def _refine(self, number: int, body: Body) -> Play:
        if number in self.shared:
            score = random.Random(_digest(body)).choice(SHARED_SCORES)
            return Play(text=draft(score, f"of-{number}-{_digest(body)[:8]}"))
        place = self._order(number, body)
        return Play(text=draft(SCORES[min(place, len(SCORES) - 1)], f"of-{number}-{place}"))

    def _roles(self, number: int, body: Body) -> Play:
        asked = json.dumps(body["messages"])
        if "Do the reviewer." not in asked:
            return Play(text=f"draft of {number}, {self._order(number, body)}")
        reviewed = self._order(-number - 1, body)
        return Play(text=json.dumps(rejected("slow") if reviewed == 0 else APPROVED))

    def _delegation(self, number: int, body: Body) -> Play:
        asked = json.dumps(body["messages"])
        if "Decide now" not in asked:
            return Play(text=json.dumps({"result": f"part of {number}", "confidence": 0.8}))
        if "Newest iterations" in asked:
            final = {"decision": "complete", "final_result": f"{number} is done", "confidence": 0.9}
            return Play(text=json.dumps({**final, "reason": "so"}))
        work = [
            {"worker": f"w{n}", "instructions": f"Do part {n} of Task {number} of a soak."}
            for n in range(2)
        ]
        return Play(text=json.dumps({"decision": "delegate", "reason": "so", "delegations": work}))

    _answers: Mapping[Kind, Callable[["Models", int, Body], Play]] = field(
        default_factory=lambda: {
            "agent": Models._agent,
            "writer": Models._writer,
            "refine": Models._refine,
            "roles": Models._roles,
            "delegation": Models._delegation,
        }
    )

    def _order(self, number: int, body: Body) -> int:
        """As which different question of a task this one came; the same one keeps its place."""
        seen = self._seen[number]
        return seen.setdefault(_digest(body), len(seen))


def _last_list(body: Body) -> str | None:
    """What the newest tool call told, if that was a look at the folder."""
    messages = body["messages"]
    assert isinstance(messages, list)
    calls = [at for at, one in enumerate(messages) if '"tool_use"' in json.dumps(one)]
    if not calls or "fs__list" not in json.dumps(messages[calls[-1]]):
        return None
    return json.dumps(messages[calls[-1] + 1])


def _digest(body: Body) -> str:
    said = json.dumps([body.get("system"), body["messages"]], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()
