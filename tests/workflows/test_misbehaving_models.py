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
from delegating import completes, decides, delegates, delegation, works
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
    match dice.randint(0, 12):
        case 0:
            return {"when": when, "error": dice.choice(ERRORS)}
        case 1 | 2:
            return {"when": when, "text": dice.choice(["", "{}"])}
        case 3:
            return {"when": when, "text": '{"decision": "complete", "decision": "fail"}'}
        case 4:
            words = text or json.dumps(good.get("json"))
            called = {"name": "no.such.tool", "arguments": {}}
            return {"when": when, "text": dice.choice(["", words]), "tool_calls": [called]}
        case 5:
            return {**entry, "stop_reason": dice.choice(STOPS)}
        case 6 if text:
            return {**entry, "text": text[: len(text) // 2], "stop_reason": "max_tokens"}
        case 7 if isinstance(good.get("json"), dict):
            return {"when": when, "text": f"{json.dumps(good['json'])}\n{contradicted(good)}"}
        case 8:
            return {**entry, "usage": {"input_tokens": 0, "output_tokens": 0}}
        case _:
            return entry


def contradicted(good: Mapping[str, object]) -> str:
    """The same object once more, which says the opposite of everything that has one."""
    said = good["json"]
    assert isinstance(said, dict)
    return json.dumps({name: opposite(value) for name, value in said.items()})


def opposite(value: object) -> object:
    match value:
        case bool():
            return not value
        case int() | float():
            return 1 - value
        case str():
            return f"not {value}"
        case list():
            return [opposite(one) for one in value]
        case dict():
            return {name: opposite(one) for name, one in value.items()}
        case _:
            return value


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
        self.begun: dict[tuple[str, str], str] = defaultdict(str)
        self.answers: dict[tuple[str, str], list[str]] = defaultdict(list)

    def book(self, run: str, role: str, text: str, *, ended: bool) -> None:
        """One reply; an answer in words goes on in the next reply until one comes to its end."""
        self.begun[run, role] += text
        if ended:
            self.whole[run].append((role, text))
            self.answers[run, role].append(self.begun.pop((run, role)))

    def of(self, run: str, role: str) -> list[str]:
        """The whole replies that the runs of a tree had in a role."""
        return [text for who, text in self.whole[run] if who == role]

    def ends(self, run: str, role: str, output: str | None) -> bool:
        """Whether an output ends as a whole reply does; what was cut before it may stand above."""
        return any(text and (output or "").endswith(text) for text in self.of(run, role))


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger, without any of our books."""
    kept = Ledger()
    play = ScriptedModel.call

    async def booked(self, request, **heard):
        reply = await play(self, request, **heard)
        run, role = request.context.run.split(".")[0], request.context.role
        ended = reply.stop_reason not in {*UNFINISHED, "refusal"}
        kept.book(run, role, reply.message.text, ended=ended)
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
            assert ledger.of(result.id, "evaluator") or result.reason != "quality_met"
        case "roles":
            assert [text for text in ledger.of(result.id, "coder") if text]
            said = ledger.answers[result.id, "reviewer"]
            assert any("requirements_met" in text for text in said)
        case _:
            assert any("complete" in text for text in ledger.of(result.id, "manager"))
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


PLAN = decides("plan", subtasks=[{"id": "s1", "title": "look"}])
# What a well-behaved model says in each kind of loop, by the role that it is asked as.
GOOD: dict[str, dict[str, list[Reply]]] = {
    "agent": {"executor": [{"text": "It is made of steel."}]},
    "refine": {"executor": [{"text": draft(1.0)}], "evaluator": [{"json": verdict(1.0)}]},
    "roles": {"coder": [{"text": "class Cache: ..."}], "reviewer": [{"json": APPROVED}]},
    "delegation": {
        "manager": [
            {"json": one["json"]} for one in (PLAN, delegates("w1", subtask="s1"), completes())
        ],
        "worker": [{"json": works("w1")["json"]}],
    },
}
NEVER_ENDED: tuple[Reply, ...] = (
    *({"stop_reason": reason} for reason in sorted(UNFINISHED)),
    {"error": "refusal"},
)


def always(kind: str, who: str, how: Reply) -> list[Reply]:
    """The script of a loop in which one role never comes to the end of a whole reply."""
    said: list[Reply] = []
    for role, good in GOOD[kind].items():
        for one in good:
            entry = {"when": {"role": role}, **one, "times": 8}
            if role != who:
                entry["times"] = 1 if len(good) > 1 else 8
            elif "error" in how:
                entry = {"when": {"role": role}, **how, "times": 8}
            else:
                entry |= how
            said.append(entry)
    return said


@pytest.mark.long
@pytest.mark.parametrize("how", NEVER_ENDED, ids=lambda how: str(next(iter(how.values()))))
async def test_nothing_rests_on_replies_that_never_end(
    site: Installation, ledger: Ledger, how: Reply
) -> None:
    """In each kind of loop, whoever it is whose whole replies are all broken off."""

    async def one(kind: str, who: str) -> None:
        wanted = KINDS[kind](random.Random(0))[0] | {"budget": {"model_calls": 30}}
        script = {"replies": always(kind, who, how), "exhausted": "repeat_last"}
        result = await site.run(wanted, script)
        if who == "worker":
            # What the manager made of it itself may count; the subtask was done by nobody. A whole
            # object of a worker is its partial work, whatever was to come after it.
            assert not any("s1 [done" in line for line in (await site.status(result.id)).plan)
            return
        if result.outcome != "accepted":
            return
        # A draft may be good enough although it was cut: its judge was told, and so is the reader.
        assert (kind, who) == ("refine", "executor"), f"{kind}, {who}: {result.reason}"
        assert "stops before its end" in result.explanation

    tried = [(kind, who) for kind, roles in GOOD.items() for who in roles]
    partial = [("delegation", "worker")] if "error" not in how else []
    await asyncio.gather(*(one(*case) for case in tried if case not in partial))
