"""A spent budget ends an agent run in what there is, with a plain reason, never above a limit."""

import pytest
from agent_runs import (
    answer,
    books_agree,
    call,
    calls,
    conversation,
    echo,
    event_types,
    gate_of,
    results,
    script,
    task,
)
from installation import Installation
from waiting import eventually

from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Amend
from perdure.domain.run.result import RunResult
from perdure.domain.turns.settings import FALLBACK_TEXT

DONE = {"text": "Done."}
FORCED = {
    "when": {"contains": "Tools are switched off now"},
    "text": "Closing.",
    "usage": {"input_tokens": 300, "output_tokens": 20},
}
CHEAP = {"price": {"input_per_million": 3, "output_per_million": 15}}
PRICE = {"price": {"input_per_million": 100, "output_per_million": 200}}


def big(word: str, tokens: int = 900) -> dict[str, object]:
    """A harmless call that costs much."""
    return {**echo(word), "usage": {"input_tokens": tokens, "output_tokens": 50}}


def exceeded(result: RunResult, budget: dict[str, float]) -> list[str]:
    """The limits that a result is above of."""
    spend = result.spend
    spent = {
        "tokens": spend.tokens,
        "output_tokens": spend.usage.output_tokens,
        "model_calls": spend.model_calls,
        "cost_usd": float(spend.cost_usd or 0),
        "tool_calls": spend.tool_calls,
    }
    return [name for name, limit in budget.items() if spent.get(name, 0) > limit]


@pytest.mark.long
@pytest.mark.parametrize(
    ("budget", "replies", "reason", "output"),
    [
        pytest.param(
            {"tokens": 5_000}, [FORCED, *map(big, "abcd")], "tokens", "Closing.", id="tokens"
        ),
        pytest.param(
            {"cost_usd": 1, "wrap_up": 0.4},
            [FORCED, *map(big, "abcdefghi")],
            "cost",
            "Closing.",
            id="cost",
        ),
        pytest.param(
            {"output_tokens": 110},
            [big("a"), big("b"), DONE],
            "output_tokens",
            FALLBACK_TEXT,
            id="output tokens without room for a sentence",
        ),
        pytest.param(
            {"output_tokens": 250},
            [FORCED, *map(big, "abcdef")],
            "output_tokens",
            "Closing.",
            id="output tokens",
        ),
        pytest.param(
            {"output_tokens": 100},
            [echo("a", text="Plan.", usage={"output_tokens": 60}), big("b"), DONE],
            "output_tokens",
            "Plan.",
            id="output tokens with deferred text",
        ),
        pytest.param(
            {"model_calls": 2},
            [FORCED, big("a"), big("b"), DONE],
            "model_calls",
            "Closing.",
            id="model calls",
        ),
        pytest.param(
            {"tool_calls": 2},
            [big("a"), big("b"), FORCED],
            "tool_calls",
            "Closing.",
            id="tool calls",
        ),
        pytest.param(
            {"iterations": 2},
            [big("a"), big("b"), FORCED],
            "iterations",
            "Closing.",
            id="iterations",
        ),
    ],
)
async def test_each_dimension_ends_the_run(
    probe: Installation, budget, replies, reason, output
) -> None:
    run = await probe.start(
        task(budget=budget), script(*replies, **(PRICE if reason == "cost" else CHEAP))
    )
    result = await probe.gateway.result(run)
    assert (result.outcome, result.reason) == ("out_of_budget", reason)
    assert (result.output, result.partial) == (output, True)
    assert result.exhausted is not None and result.exhausted.dimension == reason
    assert exceeded(result, budget) == []
    await books_agree(probe, result)
    await no_open_calls(probe, result)


async def no_open_calls(probe: Installation, result: RunResult) -> None:
    """Every tool call that the model could see has its result, unless the run ended with it."""
    messages = await conversation(probe, result.transcript)
    uses = [use.id for message in messages[:-1] for use in message.tool_uses]
    answered = {block.call_id for block in await results(probe, result)}
    assert set(uses) <= answered


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 900, "output_tokens": 50}, "accepted/text_answer"),
        ({"input_tokens": 980, "output_tokens": 20}, "accepted/text_answer"),
    ],
    ids=["within", "with the last token"],
)
async def test_a_text_answer_within_the_limit_is_an_answer(
    probe: Installation, usage, expected
) -> None:
    wanted = task(budget={"tokens": 1_000, "wrap_up": 0}, tools={"access": "minimal"})
    result = await probe.run(wanted, script({"text": "Done.", "usage": usage}))
    if usage["input_tokens"] == 980:
        expected = "out_of_budget/tokens"
    assert f"{result.outcome}/{result.reason}" == expected
    assert (result.output, result.partial, result.quality_met) == ("Done.", False, True)


async def test_calls_that_cannot_be_paid_for_are_dropped(probe: Installation) -> None:
    """The reply that spent the budget asks for tools: they do not run, and leave no trace."""
    replies = [FORCED, big("a"), big("b", 3_500)]
    result = await probe.run(task(budget={"tokens": 9_000, "wrap_up": 0.5}), script(*replies))
    assert (result.outcome, result.output) == ("out_of_budget", "Closing.")
    assert [block.text for block in await results(probe, result)] == ["a"]
    assert result.tools_used == {"probe.echo": 1}
    assert [record.break_reason for record in result.iterations] == [None, "tokens", "tokens"]
    await no_open_calls(probe, result)


async def test_a_call_that_never_fits_sends_nothing(probe: Installation) -> None:
    usage = {"input_tokens": 50_000, "output_tokens": 5}
    result = await probe.run(
        task(budget={"tokens": 8_000}), script({"text": "Done.", "usage": usage})
    )
    assert (result.outcome, result.reason) == ("out_of_budget", "tokens")
    assert (result.spend.model_calls, result.spend.tokens) == (0, 0)
    assert result.output == FALLBACK_TEXT


async def test_an_answer_is_cut_where_the_budget_ends(probe: Installation) -> None:
    reply = {"text": "word " * 100, "usage": {"input_tokens": 100, "output_tokens": 500}}
    result = await probe.run(task(budget={"output_tokens": 50}), script(reply))
    assert result.truncated
    assert result.spend.usage.output_tokens == 50
    assert result.output is not None and 40 <= len(result.output) <= 50


async def test_attempts_that_fail_count_as_calls(probe: Installation) -> None:
    replies = [{"error": "overloaded", "times": 3}, DONE]
    result = await probe.run(task(budget={"model_calls": 2}), script(*replies))
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert result.spend.model_calls == 2
    await books_agree(probe, result)


async def test_what_failed_attempts_used_is_paid_for(probe: Installation) -> None:
    used = {"input_tokens": 70, "output_tokens": 3}
    replies = [{"error": "overloaded", "usage": used, "times": 2}, {**DONE, "usage": used}]
    result = await probe.run(task(), script(*replies, **CHEAP))
    assert (result.outcome, result.spend.model_calls) == ("accepted", 3)
    assert result.spend.tokens == 3 * 73
    assert result.iterations[0].model_calls == 3
    await books_agree(probe, result)


async def test_a_person_may_raise_a_spent_budget(probe: Installation) -> None:
    wanted = task(budget={"tool_calls": 1, "on_exhausted": "ask"})
    run = await probe.start(wanted, script(big("a"), big("b"), DONE))
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None and (gate.kind, gate.choices) == ("budget", ("raise", "end"))
    assert "tool_calls: 1 of 1" in gate.prompt
    await probe.gateway.verb(run, Amend(budget={"tool_calls": 5}, by="t"))
    await answer(probe, run, gate, "raise")
    result = await probe.gateway.result(run)
    assert (result.outcome, result.tools_used) == ("accepted", {"probe.echo": 2})
    assert [record.index for record in result.iterations] == [1, 2, 3]


async def test_a_raise_without_room_is_refused_at_every_door(probe: Installation) -> None:
    wanted = task(budget={"tool_calls": 1, "on_exhausted": "ask"})
    run = await probe.start(wanted, script(big("a"), big("b"), DONE))
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None
    with pytest.raises(NotAllowed, match="--budget tool_calls="):
        await answer(probe, run, gate, "raise")
    await probe.handle(run).signal("answer", {"gate": gate.id, "choice": "raise"})

    async def noted() -> bool:
        return any("tool_calls: 1 of 1" in told for told in (await probe.status(run)).refused)

    await eventually(noted)
    assert (await gate_of(probe, run)) == gate, "it still waits"
    await probe.gateway.verb(run, Amend(budget={"tool_calls": 5}, by="t"))
    await probe.handle(run).signal("answer", {"gate": gate.id, "choice": "raise"})
    assert (await probe.gateway.result(run)).outcome == "accepted"


async def test_a_person_may_let_a_spent_budget_be(probe: Installation) -> None:
    wanted = task(budget={"tool_calls": 1, "on_exhausted": "ask"})
    run = await probe.start(wanted, script(big("a"), FORCED))
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None
    await answer(probe, run, gate, "end")
    result = await probe.gateway.result(run)
    assert (result.reason, result.output) == ("tool_calls", "Closing.")


async def test_a_dimension_warns_once(probe: Installation) -> None:
    result = await probe.run(task(budget={"tool_calls": 5}), script(*map(big, "abcde"), FORCED))
    assert (await event_types(probe, result.id)).count("budget_warning") == 1


async def test_calls_beyond_the_permitted_number_are_told_so(probe: Installation) -> None:
    asked = calls(*(call("probe.echo", text=name) for name in "abc"))
    result = await probe.run(task(budget={"tool_calls": 2}), script(asked, FORCED))
    assert [block.text for block in await results(probe, result)] == [
        "a",
        "b",
        "not run: the budget of tool calls is used up",
    ]
    assert result.spend.tool_calls == 2


async def test_a_model_without_a_price_is_not_called_under_a_cost_limit(
    probe: Installation, monkeypatch
) -> None:
    card = ScriptedModel.card

    async def unpriced(self, model: str):
        return (await card(self, model)).model_copy(update={"price": None})

    monkeypatch.setattr(ScriptedModel, "card", unpriced)
    result = await probe.run(task(), script(DONE))
    assert (result.outcome, result.reason) == ("out_of_budget", "unpriced_model")
    assert result.spend.model_calls == 0
    free = await probe.run(task(budget={"unknown_price": "unverified"}), script(DONE))
    assert (free.outcome, free.spend.cost_usd) == ("accepted", None)


@pytest.mark.long
async def test_a_call_in_flight_holds_its_reservation(probe: Installation) -> None:
    run = await probe.start(task(), script({"text": "Done.", "delay_s": 3}))

    async def reserved() -> bool:
        return (await probe.status(run)).budget.reserved_tokens > 0

    await eventually(reserved)
    await probe.gateway.result(run)
    assert (await probe.status(run)).budget.reserved_tokens == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "budget",
    [
        pytest.param({"tokens": 20_000}, id="tokens"),
        pytest.param({"tokens": None, "cost_usd": 0.02}, id="cost"),
        pytest.param({"tokens": 6_000, "wrap_up": 0.2}, id="few tokens"),
        pytest.param({"tokens": 20_000, "output_tokens": 4_000}, id="two limits"),
    ],
)
async def test_a_closing_call_is_made_short_enough_to_fit(probe: Installation, budget) -> None:
    """However long the conversation is that the budget was spent on, an answer comes of it."""
    page = "some words of a page " * 60
    longer = [
        calls(*(call("probe.echo", text=f"{n} {m} {page}") for m in range(3))) for n in "abcdef"
    ]
    closing = {"when": {"contains": "Tools are switched off now"}, "text": "What there is."}
    given = script(closing, *longer, price={"input_per_million": 1, "output_per_million": 5})
    result = await probe.run(task(budget=budget), given)
    assert (result.outcome, result.output) == ("out_of_budget", "What there is.")
    assert exceeded(result, {k: v for k, v in budget.items() if v is not None}) == []
    await books_agree(probe, result)
    uses, found = await pairs(probe, result)
    assert uses == found
    assert uses


async def pairs(probe: Installation, result: RunResult) -> tuple[list[str], list[str]]:
    """The ids of all calls and of all results in a run's transcript."""
    messages = await conversation(probe, result.transcript)
    uses = [use.id for message in messages for use in message.tool_uses]
    return uses, [block.call_id for block in await results(probe, result)]


@pytest.mark.parametrize(
    ("error", "bought"),
    [
        *((error, 8) for error in ("timeout", "overloaded", "server", "rate_limited", "cut")),
        ("bad_reply", 3),  # each answer may have to be paid for
    ],
)
async def test_what_failed_every_attempt_is_the_cause_however_much_it_used(
    probe: Installation, error: str, bought: int
) -> None:
    """Each attempt books more than what was reserved leaves for the next one."""
    used = {"input_tokens": 400, "output_tokens": 8_000}
    replies = [{"error": error, "usage": used, "times": 8}]
    result = await probe.run(task(), script(*replies, max_output=8_192, **CHEAP))
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert result.error is not None
    assert f"model_{error}" in result.error
    assert "does_not_fit" not in result.error
    assert result.spend.model_calls == bought
    await books_agree(probe, result)


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param({"output_tokens": 100}, id="output tokens"),
        pytest.param({"tokens": 2_000, "wrap_up": 0}, id="tokens without a reserve"),
        pytest.param({"tokens": 2_000, "wrap_up": 0, "model_calls": 2}, id="two limits"),
    ],
)
async def test_a_transcript_that_ends_by_a_limit_pairs_calls_and_results(
    probe: Installation, budget
) -> None:
    both = calls(call("probe.echo", text="a"), call("probe.echo", text="b"))
    used = {"usage": {"input_tokens": 950, "output_tokens": 50}}
    run = await probe.start(task(budget=budget), script({**both, **used}, big("c"), big("d")))
    result = await probe.gateway.result(run)
    assert result.outcome == "out_of_budget"
    uses, found = await pairs(probe, result)
    assert uses == found
    assert len(uses) >= 2


@pytest.mark.long
async def test_counted_cache_reads_bound_the_retries_and_are_in_every_split(
    site: Installation,
) -> None:
    read = {"usage": {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 8_000}}
    fails = {"error": {"status": 529, "retry_after": 0.01}, **read, "times": 6}
    budget = {"tokens": 20_000, "count_cache_reads": True, "wrap_up": 0}
    result = await site.run(task(budget=budget), script(fails, {**DONE, **read}))
    assert (result.outcome, result.reason) == ("out_of_budget", "tokens")
    assert exceeded(result, {"tokens": 20_000}) == []
    for split in (result.spend.by_phase, result.spend.by_model):
        assert sum(int(str(line["tokens"])) for line in split.values()) == result.spend.tokens
