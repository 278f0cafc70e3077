"""The scripted model: matching, the cursor, errors, usage, streaming."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.transcript import ToolUseBlock, user_message
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.support import (
    READ_TOOL,
    MemoryBlobs,
    MemoryRecords,
    call_message,
    fails,
    request,
    result_message,
    say,
    script_name,
    scripted,
    stores,
)


class Play:
    """A script on stage: each `ask` is a new logical call unless a key is given."""

    def __init__(self, text: str, label: str = "") -> None:
        self.records = MemoryRecords()
        self.blobs = MemoryBlobs(text)
        self.model = ScriptedModel(*stores(self.blobs, self.records))
        self.name = script_name(text, label)
        self._calls = 0

    def request(self, **changes: Any) -> Any:
        self._calls += 1
        return request(self.name, **({"key": f"run/{self._calls}"} | changes))

    async def ask(self, **changes: Any) -> str:
        reply, _ = await say(self.model, self.request(**changes))
        return reply.message.text

    async def facts(self, **changes: Any) -> Any:
        return await fails(self.model, self.request(**changes))


async def test_replies_come_in_order_and_times_repeats() -> None:
    play = Play("replies: [{text: a, times: 2}, {text: b}]")
    assert [await play.ask() for _ in range(3)] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("when", "changes", "fits"),
    [
        ("role: executor", {}, True),
        ("role: evaluator", {}, False),
        ("iteration: 2", {"iteration": 2}, True),
        ("iteration: 2", {"iteration": 3}, False),
        ("worker: w1", {"worker": "w1"}, True),
        ("worker: w1", {"worker": "w2"}, False),
        ("worker: w1", {}, False),
        ("model: small", {}, True),
        ("model: large", {}, False),
        ("contains: hello", {"text": "Say hello."}, True),
        ("contains: goodbye", {"text": "Say hello."}, False),
        ("contains: brief", {}, True),
        ("{role: executor, contains: goodbye}", {}, False),
    ],
)
async def test_when_narrows(when: str, changes: dict[str, Any], fits: bool) -> None:
    narrowed = when if when.startswith("{") else f"{{{when}}}"
    play = Play(f"replies: [{{when: {narrowed}, text: narrow}}, {{text: wide}}]", label="small")
    assert await play.ask(**changes) == ("narrow" if fits else "wide")


async def test_contains_looks_at_tool_traffic_too() -> None:
    play = Play("replies: [{when: {contains: treasure}, text: found}]")
    traffic = (user_message("x"), call_message("t"), result_message("t", text="a treasure"))
    assert await play.ask(messages=traffic) == "found"


async def test_roles_take_their_replies_independently() -> None:
    play = Play(
        "replies: [{when: {role: a}, text: a1}, {when: {role: b}, text: b1},"
        " {when: {role: a}, text: a2}]"
    )
    assert await play.ask(role="a") == "a1"
    assert await play.ask(role="a") == "a2"
    assert await play.ask(role="b") == "b1"


async def test_runs_have_their_own_cursor() -> None:
    play = Play("replies: [{text: first}, {text: second}]")
    assert await play.ask(run="parent") == "first"
    assert await play.ask(run="child") == "first"
    assert await play.ask(run="parent") == "second"


async def test_a_logical_call_keeps_its_reply_through_retries() -> None:
    play = Play("replies: [{text: a}, {text: b}]")
    assert [await play.ask(key="k", attempt=n) for n in (1, 2, 3)] == ["a", "a", "a"]
    assert await play.ask(key="other") == "b"


async def test_a_logical_call_keeps_its_reply_when_it_is_reserved_anew() -> None:
    """A worker that died leaves too little reserved: the call is made again under another key."""
    play = Play("replies: [{text: a}, {text: b}]")
    assert await play.ask(key="k1", call="k1") == "a"
    assert await play.ask(key="k2", call="k1") == "a"
    assert await play.ask(key="k3", call="k3") == "b"


async def test_an_error_of_a_call_is_not_met_again_when_it_is_reserved_anew() -> None:
    play = Play("replies: [{error: timeout}, {text: a}]")
    assert (await play.facts(key="k1", call="k1")).kind == "timeout"
    assert await play.ask(key="k2", call="k1") == "a"


async def test_errors_are_used_up_by_one_attempt() -> None:
    play = Play("replies: [{error: {status: 529}, times: 2}, {text: a}, {text: b}]")
    kinds = [(await play.facts(key="k", attempt=n)).kind for n in (1, 2)]
    assert kinds == ["overloaded", "overloaded"]
    assert await play.ask(key="k", attempt=3) == "a"
    assert await play.ask(key="k", attempt=4) == "a"
    assert await play.ask(key="other") == "b"


async def test_an_attempt_that_comes_twice_meets_the_same_error() -> None:
    play = Play("replies: [{error: timeout}, {text: a}]")
    for _ in range(2):
        assert (await play.facts(key="k", attempt=1)).kind == "timeout"


async def test_the_cursor_outlives_the_process() -> None:
    play = Play("replies: [{text: a}, {text: b}]")
    await play.ask()
    play.model = ScriptedModel(*stores(play.blobs, play.records))
    assert await play.ask() == "b"


async def test_two_scripts_of_one_run_do_not_count_each_other() -> None:
    one, two = "replies: [{text: one}]", "replies: [{text: two}]"
    model = scripted(one, two)
    said = [
        (await say(model, request(script_name(text), key=key)))[0].message.text
        for text, key in ((one, "k1"), (two, "k2"))
    ]
    assert said == ["one", "two"]


async def test_concurrent_calls_never_take_one_reply_twice() -> None:
    play = Play("replies: [{text: a}, {text: b}, {text: c}]")
    assert sorted(await asyncio.gather(*(play.ask() for _ in range(3)))) == ["a", "b", "c"]


async def test_exhausted_script_says_who_asked_and_what_is_left() -> None:
    play = Play("replies: [{text: a}, {when: {role: evaluator}, text: b}]")
    await play.ask()
    facts = await play.facts(iteration=4, worker="w7")
    assert facts.kind == "bad_request"
    assert not facts.sent
    assert "role executor, iteration 4, worker w7" in facts.message
    assert "replies[1] for role evaluator" in facts.message


async def test_repeat_last_repeats_the_last_fitting_reply() -> None:
    play = Play(
        "replies: [{text: a}, {text: b}, {when: {role: x}, text: c}]\nexhausted: repeat_last"
    )
    assert [await play.ask() for _ in range(4)] == ["a", "b", "b", "b"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("timeout", {"kind": "timeout", "retryable": True, "sent": True}),
        ("connection", {"kind": "connection", "retryable": True, "sent": False}),
        ("cut", {"kind": "cut", "retryable": True}),
        ("context_overflow", {"kind": "context_overflow", "retryable": False}),
        ("{status: 401}", {"kind": "authentication", "retryable": False, "status": 401}),
        ("{status: 400}", {"kind": "bad_request", "retryable": False}),
        ("{status: 429, retry_after: 1}", {"kind": "rate_limited", "retry_after_s": 1.0}),
        ("{status: 429, retry_after: 0}", {"retry_after_s": 0.0}),
        ("{status: 429, retry_after: -5}", {"retry_after_s": 0.0}),
        ("{status: 429, retry_after: 100000000}", {"retry_after_s": 1e8}),
        ("{status: 429, retry_after: soon}", {"retry_after_s": None}),
        ("{status: 429, retry_after: 'Sat, 01 Jan 2000 00:00:00 GMT'}", {"retry_after_s": 0.0}),
        ("{status: 500, code: overloaded_error}", {"kind": "overloaded", "status": 500}),
        ("{kind: server, message: 'no luck'}", {"kind": "server", "message": "no luck"}),
    ],
)
async def test_errors(error: str, expected: dict[str, Any]) -> None:
    facts = await Play(f"replies: [{{error: {error}}}]").facts()
    assert {name: getattr(facts, name) for name in expected} == expected
    assert facts.usage == Usage()


async def test_an_error_after_some_text_books_its_usage() -> None:
    play = Play("replies: [{text: half, error: cut, usage: {input_tokens: 9, output_tokens: 2}}]")
    assert (await play.facts()).usage == Usage(input_tokens=9, output_tokens=2)


async def test_refusal_is_a_reply() -> None:
    play = Play("replies: [{error: refusal}, {text: a}]")
    reply, _ = await say(play.model, play.request(key="k"))
    assert reply.stop_reason == "refusal"
    assert await play.ask(key="k", attempt=2) == "a"


@pytest.mark.parametrize(
    ("entry", "defaults", "usage"),
    [
        ("usage: {input_tokens: 7}", "usage: {input_tokens: 1}", Usage(input_tokens=7)),
        ("delay_s: 0", "usage: {output_tokens: 5}", Usage(output_tokens=5)),
        ("usage: {cache_write_tokens: 4, cache_read_tokens: 3}", "",
         Usage(cache_write_5m_tokens=4, cache_read_tokens=3)),
    ],
    ids=["entry", "defaults", "caches"],
)  # fmt: skip
async def test_stated_usage(entry: str, defaults: str, usage: Usage) -> None:
    play = Play(f"defaults: {{{defaults}}}\nreplies: [{{text: a, {entry}}}]")
    reply, _ = await say(play.model, play.request())
    assert reply.usage == usage


async def test_usage_is_estimated_from_text_when_nothing_is_stated() -> None:
    play = Play(f"replies: [{{text: '{'word ' * 90}'}}]")
    reply, _ = await say(play.model, play.request(text="tell " * 180))
    assert 80 <= reply.usage.output_tokens <= 120
    assert 180 <= reply.usage.input_tokens <= 230


async def test_mixed_text_and_tool_calls() -> None:
    play = Play(
        "replies: [{text: look, tool_calls: [{name: fs.read, arguments: {path: a}},"
        " {name: fs.read, arguments: {path: b}, id: mine}]}]"
    )
    reply, pieces = await say(play.model, play.request(key="k"))
    again, _ = await say(play.model, play.request(key="k", attempt=2))
    assert pieces == ["look"]
    assert reply.stop_reason == "tool_use"
    first, second = reply.message.tool_uses
    assert (first.name, first.arguments, second.id) == ("fs.read", {"path": "a"}, "mine")
    assert again.message == reply.message, "ids must repeat on a retry"
    assert first.id != second.id


async def test_json_is_text_or_the_forced_tools_call() -> None:
    text = "replies: [{json: {path: 'ü'}, times: 2}]"
    play = Play(text)
    assert await play.ask() == '{"path": "ü"}'
    reply, _ = await say(play.model, play.request(tools=(READ_TOOL,), tool_choice="fs.read"))
    (block,) = reply.message.blocks
    assert isinstance(block, ToolUseBlock)
    assert (block.name, block.arguments) == ("fs.read", {"path": "ü"})


async def test_text_is_streamed_in_pieces() -> None:
    text = "steel " * 40
    play = Play(f"replies: [{{text: '{text}'}}]")
    reply, pieces = await say(play.model, play.request())
    assert len(pieces) > 5
    assert "".join(pieces) == reply.message.text == text


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
async def test_delay_is_spent_before_the_reply(delay_s: float) -> None:
    play = Play(f"replies: [{{text: {'x' * 100}, delay_s: {delay_s}}}]")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await play.ask()
    assert loop.time() - began >= delay_s * 0.9


async def test_a_slow_reply_can_be_cancelled_and_stays_taken() -> None:
    play = Play("replies: [{text: slow, delay_s: 600}, {text: other}]")
    call = asyncio.ensure_future(play.ask(key="k"))
    while not play.records.taken:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await play.ask(key="next") == "other"


async def test_card_states_price_and_a_large_window() -> None:
    play = Play("price: {input_per_million: 3, output_per_million: 15}\nreplies: [{text: a}]")
    card = await play.model.card(play.name)
    assert card.price is not None
    assert card.price.cost(Usage(input_tokens=1_000_000)) == Decimal(3)
    assert card.window >= 1_000_000
    free = Play("replies: [{text: a}]")
    free_card = await free.model.card(free.name)
    assert free_card.price is not None
    assert free_card.price.cost(Usage(output_tokens=10)) == 0


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        pytest.param(script_name("gone"), "Submit the run again", id="gone"),
        pytest.param("scripted:script.yaml", "Start the run by `perdure run`", id="a file"),
    ],
)
async def test_a_script_that_is_not_in_the_store_is_an_unknown_model(name: str, cure: str) -> None:
    with pytest.raises(ModelError, match=cure) as caught:
        await say(scripted(), request(name))
    assert caught.value.facts.kind == "unknown_model"
    assert not caught.value.facts.sent


async def test_a_broken_script_is_a_bad_request_with_its_problems() -> None:
    play = Play("replies: [{texd: a}]")
    facts = await play.facts()
    assert facts.kind == "bad_request"
    assert "replies[0].texd" in facts.message


@pytest.mark.parametrize(
    ("script", "tokens"),
    [
        ("replies: [{text: a, usage: {input_tokens: 1200}}]", 1200),
        ("replies: [{text: a}]\ndefaults: {usage: {input_tokens: 7}}", 7),
        ("replies: [{text: a, usage: {input_tokens: 1, cache_read_tokens: 2}}]", 3),
        ("replies: [{error: server, usage: {input_tokens: 40}}]", 40),
        ("replies: [{text: a, when: {role: evaluator}}]", None),
    ],
    ids=["stated", "by default", "with caches", "of a failure", "nothing left"],
)
async def test_a_prompt_counts_what_the_next_entry_will_report(script, tokens) -> None:
    play = Play(script)
    assert await play.model.count(play.request()) == tokens


async def test_counting_uses_nothing_up_and_names_what_a_retry_will_get() -> None:
    play = Play(
        "replies: [{text: a, usage: {input_tokens: 1}}, {text: b, usage: {input_tokens: 2}}]"
    )
    first = play.request()
    assert [await play.model.count(first) for _ in range(2)] == [1, 1]
    await say(play.model, first)
    assert await play.model.count(first) == 1
    assert await play.model.count(play.request()) == 2


async def test_an_uncounted_prompt_is_estimated_as_it_will_be_reported() -> None:
    play = Play("replies: [{text: a}]")
    asked = play.request(text="word " * 50)
    counted = await play.model.count(asked)
    reply, _ = await say(play.model, asked)
    assert counted == reply.usage.prompt_tokens > 50


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("{text: 'aaaaabbbbb', usage: {output_tokens: 20}}", "aaaaa"),
        ("{json: {key: 1}, usage: {output_tokens: 20}}", '{"key'),
        ("{tool_calls: [{name: fs.read}], usage: {output_tokens: 11}}", ""),
        ("{text: abcd, tool_calls: [{name: fs.read}], usage: {output_tokens: 20}}", "ab"),
    ],
    ids=["text", "json", "calls are lost", "calls behind text are lost"],
)
async def test_a_reply_ends_at_its_limit(entry, text) -> None:
    play = Play(f"replies: [{entry}]")
    reply, pieces = await say(play.model, play.request(max_tokens=10))
    assert (reply.message.text, "".join(pieces)) == (text, text)
    assert (reply.stop_reason, reply.usage.output_tokens) == ("max_tokens", 10)
    assert reply.message.tool_uses == ()


async def test_a_reply_that_just_fits_is_whole() -> None:
    play = Play("replies: [{text: abcd, usage: {output_tokens: 10}}]")
    reply, _ = await say(play.model, play.request(max_tokens=10))
    assert (reply.message.text, reply.stop_reason) == ("abcd", "end_turn")


async def test_a_failure_reports_no_more_than_it_was_allowed() -> None:
    play = Play("replies: [{error: server, text: part, usage: {output_tokens: 99}}]")
    facts = await play.facts(max_tokens=10)
    assert facts.usage == Usage(output_tokens=10)


async def test_a_store_that_is_away_is_waited_for_and_no_failure_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(_: MemoryBlobs, address: str) -> str:
        raise StoreAway("The database cannot be reached.")

    play = Play("replies: [{text: a}]")
    monkeypatch.setattr(MemoryBlobs, "get_text", away)
    with pytest.raises(StoreAway):
        await play.model.card(play.name)
    with pytest.raises(StoreAway):
        await play.ask()
