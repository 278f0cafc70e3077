"""Errands of all kinds of loops, and a model that answers by what it is asked."""

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from provider import MODEL, Play
from refining import draft, spec
from teams import APPROVED, rejected, stage, task, team

KINDS = ("agent", "refine", "roles", "delegation")
SCORES = (0.4, 0.7, 0.3, 0.9, 1.0)
NAMED = re.compile(r"Errand (\d+)\b")
TOKENS = 60_000


def errand(number: int, kind: str) -> dict[str, object]:
    """The task of that number."""
    common: dict[str, object] = {
        "goal": f"Errand {number} of many.",
        "models": {"executor": MODEL},
        "learn": False,
        "budget": {"tokens": TOKENS, "on_exhausted": ("ask", "abort")[number % 2]},
    }
    match kind:
        case "agent":
            return {"kind": "agent", "tools": {"repeat_exempt": ["effect.again"]}, **common}
        case "refine":
            return {**spec(), **common}
        case "roles":
            return {**task(team(stage("coder"), stage("reviewer"))), **common}
        case _:
            return {
                "kind": "delegation",
                "tools": {"access": "minimal"},
                "delegation": {"critique": {"enabled": False}},
                **common,
            }


def number_of(body: Mapping[str, object]) -> int:
    """Whose call a request is."""
    found = NAMED.findall(json.dumps([body.get("system"), body["messages"]]))
    assert found, "every prompt names its errand"
    return int(found[0])


@dataclass
class Models:
    """Chooses answers by what is asked, so that a call that is made again gets the same one."""

    seed: int
    kinds: dict[int, str] = field(default_factory=dict)
    _seen: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def play(self, body: dict[str, object]) -> Sequence[Play]:
        """What a call gets, attempt by attempt."""
        number = number_of(body)
        digest = hashlib.sha256(
            json.dumps([body.get("system"), body["messages"]], sort_keys=True).encode()
        ).hexdigest()
        chance = random.Random(f"{self.seed} {number} {digest}")
        place = self._seen[number].setdefault(digest, len(self._seen[number]))
        answer = getattr(self, f"_{self.kinds[number]}")(number, body, place, chance)
        answer = Play(text=answer.text, calls=answer.calls, delay_s=chance.uniform(0.02, 0.5))
        if chance.random() < 0.05:
            return [Play(status=529, error="overloaded_error"), answer]
        if chance.random() < 0.05:
            return [Play(text="half", end="cut"), answer]
        return [answer]

    def _agent(
        self, number: int, body: Mapping[str, object], place: int, chance: random.Random
    ) -> Play:
        if place > 6 or chance.random() < 0.15:
            return Play(text=f"done {number}")
        names = chance.choices(
            ("effect.again", "effect.once", "effect.approved"), k=chance.randint(1, 4)
        )
        return Play(
            text="",
            calls=[(name, {"word": f"{number}-{place}-{at}"}) for at, name in enumerate(names)],
        )

    def _refine(
        self, number: int, body: Mapping[str, object], place: int, chance: random.Random
    ) -> Play:
        return Play(text=draft(SCORES[min(place, len(SCORES) - 1)], f"of-{number}-{place}"))

    def _roles(
        self, number: int, body: Mapping[str, object], place: int, chance: random.Random
    ) -> Play:
        if "Do the reviewer." not in json.dumps(body["messages"]):
            return Play(text=f"draft of {number}, {place}")
        return Play(text=json.dumps(rejected("slow") if chance.random() < 0.5 else APPROVED))

    def _delegation(
        self, number: int, body: Mapping[str, object], place: int, chance: random.Random
    ) -> Play:
        asked = json.dumps(body["messages"])
        if "Decide now" not in asked:
            return Play(text=json.dumps({"result": f"part {place}", "confidence": 0.8}))
        if chance.random() < 0.1:
            said: dict[str, object] = {"decision": "escalate", "question": "Which way?"}
        elif "Newest iterations" in asked and chance.random() < 0.6:
            said = {"decision": "complete", "final_result": f"{number} done", "confidence": 0.9}
        else:
            work = [
                {"worker": f"w{n}", "instructions": f"Do part {n} of Errand {number} of many."}
                for n in range(chance.randint(1, 3))
            ]
            said = {"decision": "delegate", "delegations": work}
        return Play(text=json.dumps({**said, "reason": "so"}))
