"""Any script of replies: the run ends, stays within its budget, and all books name one spend."""

import asyncio
import random
from collections import defaultdict
from functools import reduce
from itertools import pairwise
from operator import add

import pytest
from agent_runs import books_agree, call, conversation
from installation import Installation

from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.transcript import ToolResultBlock
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult

AT_ONCE = 4
ERRORS = ("overloaded", "rate_limited", "server", "cut", "bad_request", "refusal")


def some_usage(dice: random.Random) -> dict[str, int]:
    return {
        "input_tokens": dice.choice([0, 10, 400, 2_000, 30_000]),
        "output_tokens": dice.choice([0, 5, 200, 9_000]),
        "cache_read_tokens": dice.choice([0, 0, 500]),
        "cache_write_tokens": dice.choice([0, 0, 300]),
    }


def some_calls(dice: random.Random) -> list[object]:
    return [
        dice.choice(
            [
                call("probe.echo", text=dice.choice("abc")),
                call("probe.same", text=dice.choice("abcdef")),
                call("probe.fail", text="no"),
                call("probe.page", number=dice.randint(1, 9), size=dice.choice([10, 20_000])),
                call("no.such.tool"),
                call("probe.echo", wrong="argument"),
            ]
        )
        for _ in range(dice.randint(1, 4))
    ]


def some_reply(dice: random.Random) -> dict[str, object]:
    reply: dict[str, object] = {}
    match dice.randint(0, 9):
        case 0 | 1 | 2 | 3 | 4:
            reply["tool_calls"] = some_calls(dice)
            if dice.random() < 0.5:
                reply["text"] = "I look."
        case 5 | 6:
            reply["text"] = dice.choice(["", "An answer.", "word " * 2_000])
            if dice.random() < 0.3:
                reply["stop_reason"] = dice.choice(["max_tokens", "pause_turn"])
        case _:
            reply["error"] = dice.choice(ERRORS)
    if dice.random() < 0.7:
        reply["usage"] = some_usage(dice)
    return reply


def some_script(dice: random.Random) -> dict[str, object]:
    return {
        "replies": [some_reply(dice) for _ in range(dice.randint(1, 8))],
        "exhausted": dice.choice(["error", "repeat_last"]),
        "price": {
            "input_per_million": dice.choice([0, 3, 200]),
            "output_per_million": dice.choice([0, 15, 1_000]),
        },
    }


def some_task(dice: random.Random) -> dict[str, object]:
    def maybe(*values: object) -> object:
        return dice.choice([None, *values])

    return {
        "kind": "agent",
        "goal": "any",
        "agent": {
            "max_iterations": dice.randint(1, 7),
            "defer_mixed_text": dice.random() < 0.5,
            "nudge_on_empty": dice.random() < 0.5,
        },
        "budget": {
            "tokens": maybe(3_000, 9_000, 60_000),
            "cost_usd": maybe("0.05", "0.5", "2.00"),
            "output_tokens": maybe(100, 2_000),
            "model_calls": maybe(1, 3, 9),
            "tool_calls": maybe(1, 5),
            "iterations": maybe(1, 3),
            "wrap_up": dice.choice([0, 0.1, 0.4]),
        },
    }


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Usage]]:
    """What the scripted model says it was asked for, per run, without any of our books."""
    lines: dict[str, list[Usage]] = defaultdict(list)
    play = ScriptedModel.call

    async def booked(self, request, **heard):
        try:
            reply = await play(self, request, **heard)
        except ModelError as error:
            if error.facts.sent:  # a refused connection asked nobody
                lines[request.context.run].append(error.facts.usage)
            raise
        lines[request.context.run].append(reply.usage)
        return reply

    monkeypatch.setattr(ScriptedModel, "call", booked)
    return lines


def above(result: RunResult, budget: object) -> list[str]:
    assert isinstance(budget, dict)
    spend = result.spend
    spent = {
        "tokens": spend.tokens,
        "cost_usd": spend.cost_usd,
        "output_tokens": spend.usage.output_tokens,
        "model_calls": spend.model_calls,
        "tool_calls": spend.tool_calls,
    }
    limits = {name: budget[name] for name in spent if budget[name] is not None}
    return [name for name, limit in limits.items() if float(spent[name] or 0) > float(str(limit))]


async def prove(site: Installation, seed: int, ledger: dict[str, list[Usage]]) -> None:
    dice = random.Random(seed)
    wanted, said = some_task(dice), some_script(dice)
    run = await site.start(wanted, said, run_id=f"agent-any-{seed}")
    result = await site.gateway.result(run)
    assert result.reason in REASONS[result.outcome], seed
    assert result.output, seed
    assert above(result, wanted["budget"]) == [], (seed, result.spend)
    unconfirmed = int(str(result.spend.unconfirmed["tokens"]))
    if unconfirmed == 0:
        await books_agree(site, result)
        assert reduce(add, ledger[run], Usage()) == result.spend.usage, seed
    assert len(ledger[run]) == result.spend.model_calls, seed
    await answered(site, result)


async def answered(site: Installation, result: RunResult) -> None:
    """Every call has its result, in order; at most the last message's calls are open."""
    messages = await conversation(site, result.transcript)
    for message, following in pairwise(messages):
        ids = [block.call_id for block in following.blocks if isinstance(block, ToolResultBlock)]
        assert ids == [use.id for use in message.tool_uses], result.id


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(25), id="quick"),
        pytest.param(
            range(25, 200), id="more", marks=[pytest.mark.slow, pytest.mark.timeout(1_200)]
        ),
    ],
)
async def test_any_script_ends_within_its_budget(
    probe: Installation, ledger: dict[str, list[Usage]], seeds: range
) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> None:
        async with limit:
            await prove(probe, seed, ledger)

    outcomes = await asyncio.gather(*(one(seed) for seed in seeds), return_exceptions=True)
    wrong = [outcome for outcome in outcomes if outcome is not None]
    assert not wrong, wrong
