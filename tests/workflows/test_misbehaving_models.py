"""Models that misbehave in every way a script can: no loop claims more than was delivered.

Each seed is one run of each kind of loop on a real server. The ledger of the scripted model says
what was delivered; the result is held against it.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping

import pytest
from delegating import completes, delegates, delegation, works
from installation import Installation
from refining import TONE, WORDS_CHECK, draft, spec, verdict
from teams import APPROVED, PAIR, task, team

from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.llm.requests import UNFINISHED
from perdure.domain.run.result import RunResult

AT_ONCE = 4
Reply = dict[str, object]
ERRORS = ("overloaded", "server", "cut", "bad_request", "refusal", "bad_reply", "timeout")
STOPS = ("tool_use", "max_tokens", "pause_turn", "context_end", "stop_sequence")


def spoilt(dice: random.Random, good: Mapping[str, object], when: Reply) -> Reply:
    """A good reply, or what a misbehaving model makes of it."""
    entry: Reply = {"when": when, **good}
    text = str(good.get("text") or "")
    match dice.randint(0, 11):
        case 0:
            return {"when": when, "error": dice.choice(ERRORS)}
        case 1:
            return {"when": when, "text": ""}
        case 2:
            return {"when": when, "text": "{}"}
        case 3:
            return {"when": when, "text": '{"decision": "complete", "decision": "fail"}'}
        case 4:
            return {"when": when, "tool_calls": [{"name": "no.such.tool", "arguments": {}}]}
        case 5:
            return {**entry, "stop_reason": dice.choice(STOPS)}
        case 6 if text:
            return {**entry, "text": text[: len(text) // 2], "stop_reason": "max_tokens"}
        case 7:
            return {**entry, "usage": {"input_tokens": 0, "output_tokens": 0}}
        case _:
            return entry


def replies(dice: random.Random, when: Reply, *good: Mapping[str, object]) -> list[Reply]:
    return [spoilt(dice, one, when) for one in good for _ in range(dice.randint(1, 2))]


def agent(dice: random.Random) -> tuple[Reply, list[Reply]]:
    answers = ({"text": "It is made of steel."}, {"text": "It is of glass."})
    return {"kind": "agent", "goal": "What is it made of?", "learn": False}, replies(
        dice, {"role": "executor"}, *answers
    )


def refine(dice: random.Random) -> tuple[Reply, list[Reply]]:
    tenths = [dice.randint(0, 10) / 10 for _ in range(3)]
    return spec([WORDS_CHECK, TONE], max_iterations=3), [
        *replies(dice, {"role": "executor"}, *({"text": draft(tenth)} for tenth in tenths)),
        *replies(dice, {"role": "evaluator"}, *({"json": verdict(tenth)} for tenth in tenths)),
    ]


def roles(dice: random.Random) -> tuple[Reply, list[Reply]]:
    return dict(task(team(*PAIR))), [
        *replies(dice, {"role": "coder"}, {"text": "class Cache: ..."}, {"text": "cache = {}"}),
        *replies(dice, {"role": "reviewer"}, {"json": APPROVED}, {"json": APPROVED}),
    ]


def delegated(dice: random.Random) -> tuple[Reply, list[Reply]]:
    def said(entry: object) -> Reply:
        assert isinstance(entry, dict)
        return {"json": entry["json"]}

    return delegation(delegation={"max_iterations": 5}), [
        *replies(dice, {"role": "manager"}, said(delegates("w1")), said(completes())),
        *replies(dice, {"role": "worker"}, said(works("w1")), said(works("w1", "", 0.0))),
    ]


KINDS: dict[str, Callable[[random.Random], tuple[Reply, list[Reply]]]] = {
    "agent": agent,
    "refine": refine,
    "roles": roles,
    "delegation": delegated,
}


class Ledger:
    """What the scripted model delivered to each tree of runs, by the role that it was asked as."""

    def __init__(self) -> None:
        self.whole: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.cut: dict[str, list[tuple[str, str]]] = defaultdict(list)

    def of(self, run: str, role: str) -> list[str]:
        """The whole replies that the runs of a tree had in a role."""
        return [text for who, text in self.whole[run] if who == role]

    def structured(self, run: str, role: str) -> list[str]:
        """The same, with objects that had come to their end when the reply was cut."""
        cut = [text for who, text in self.cut[run] if who == role]
        return [*self.of(run, role), *(text for text in cut if is_json(text))]

    def ends(self, run: str, role: str, output: str | None) -> bool:
        """Whether an output ends as a whole reply does; what was cut before it may stand above."""
        return any(text and (output or "").endswith(text) for text in self.of(run, role))


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger, without any of our books."""
    kept = Ledger()
    play = ScriptedModel.call

    async def booked(self, request, **heard):
        reply = await play(self, request, **heard)
        line = (request.context.role, reply.message.text)
        broken = reply.stop_reason in UNFINISHED or reply.stop_reason == "refusal"
        (kept.cut if broken else kept.whole)[request.context.run.split(".")[0]].append(line)
        return reply

    monkeypatch.setattr(ScriptedModel, "call", booked)
    return kept


def claims_no_more(result: RunResult, kind: str, ledger: Ledger) -> None:
    """An accepted result rests on whole replies of those who made it, and of those who judged."""
    assert result.reason in REASONS[result.outcome]
    assert result.explanation
    if result.outcome != "accepted":
        assert not (result.quality_met and kind == "roles")
        return
    match kind:
        case "agent":
            assert ledger.ends(result.id, "executor", result.output)
        case "refine":
            assert ledger.ends(result.id, "executor", result.output)
            assert ledger.structured(result.id, "evaluator") or result.reason != "quality_met"
        case "roles":
            assert [text for text in ledger.of(result.id, "coder") if text]
            assert any(
                "requirements_met" in text for text in ledger.structured(result.id, "reviewer")
            )
        case _:
            assert any("complete" in text for text in ledger.structured(result.id, "manager"))
            assert result.output == "A bottle of steel."


async def prove(site: Installation, kind: str, seed: int, ledger: Ledger) -> None:
    dice = random.Random(f"{kind}-{seed}")
    wanted, said = KINDS[kind](dice)
    script = {"replies": said, "exhausted": dice.choice(["error", "repeat_last"])}
    wanted["budget"] = {"model_calls": 30}
    run = await site.start(wanted, script, run_id=f"misled-{kind}-{seed}")
    result = await site.gateway.result(run)
    try:
        claims_no_more(result, kind, ledger)
    except AssertionError as wrong:
        wrong.add_note(f"{run}: {result.outcome}/{result.reason}: {result.output!r}: {said}")
        raise


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(2), id="quick"),
        pytest.param(range(2, 60), id="more", marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
    ],
)
async def test_no_loop_claims_more_than_was_delivered(
    site: Installation, ledger: Ledger, seeds: range
) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, seed: int) -> None:
        async with limit:
            await prove(site, kind, seed, ledger)

    wrong = await asyncio.gather(
        *(one(kind, seed) for seed in seeds for kind in KINDS), return_exceptions=True
    )
    broken = [error for error in wrong if error is not None]
    if broken:
        raise ExceptionGroup("claims", [e for e in broken if isinstance(e, Exception)])
