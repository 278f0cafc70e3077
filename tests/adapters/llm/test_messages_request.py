"""What goes over the wire: blocks, breakpoints, tools, schemas; and what is refused before."""

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from perdure.adapters.llm.request import CLAUDE as CLAUDE_DIALECT
from perdure.adapters.llm.request import wire_request
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import ToolOffer
from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    ThinkingBlock,
    assistant_message,
    user_message,
)
from perdure.domain.outputs.compression import Compressed
from perdure.domain.refine.prompts import Brief, first_messages, task_text
from perdure.domain.refine.spec import OutputSettings
from perdure.domain.scoring.feedback import later_messages
from tests.adapters.llm.support import (
    CLAUDE,
    READ_TOOL,
    Provider,
    call_message,
    events,
    hello,
    request,
    result_message,
    say,
)


async def sent(**changes: Any) -> dict[str, Any]:
    provider = Provider(events(*hello()))
    await say(provider.client(), request(**changes))
    (body,) = provider.bodies
    return body


async def test_whole_body_of_a_tool_turn() -> None:
    messages = (user_message("Read it."), call_message("t1"), result_message("t1"))
    assert await sent(messages=messages, tools=(READ_TOOL,), cache="grow") == snapshot(
        {
            "max_tokens": 100,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Read it.", "cache_control": {"type": "ephemeral"}}
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "tool_use",
                            "id": "t1",
                            "name": "fs__read",
                            "input": {"path": "t1"},
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": "content",
                            "is_error": False,
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                },
            ],
            "model": "claude-sonnet-4-5",
            "stream": True,
            "system": [
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
            ],
            "tool_choice": {"type": "auto"},
            "tools": [
                {
                    "name": "fs__read",
                    "description": "Read a file.",
                    "input_schema": {
                        "type": "object",
                        "properties": {"path": {"type": "string", "maxLength": 30}},
                        "required": ["path"],
                    },
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        }
    )


async def test_at_most_four_breakpoints_however_long_the_conversation() -> None:
    talk = [
        message for n in range(8) for message in (user_message(f"q{n}"), assistant_message(f"a{n}"))
    ]
    said = (*talk, user_message("last"))
    body = await sent(messages=said, tools=(READ_TOOL, READ_TOOL), cache="grow")
    assert str(body).count("cache_control") == 4
    marked = [m["content"][-1]["text"] for m in body["messages"] if "cache_control" in str(m)]
    assert marked == ["q7", "last"]
    assert "cache_control" not in body["tools"][0]


@pytest.mark.parametrize(
    ("cache", "marked"),
    [
        ("none", []),
        ("fixed", ["tool", "Be brief."]),
        ("read", ["tool", "Be brief.", "q1"]),
        ("grow", ["tool", "Be brief.", "q1", "q2"]),
        ("first", ["tool", "Be brief."]),
    ],
)
async def test_what_is_marked_is_what_the_request_wants(cache: str, marked: list[str]) -> None:
    talk = (user_message("q1"), assistant_message("a1"), user_message("q2"))
    body = await sent(messages=talk, tools=(READ_TOOL,), cache=cache)
    blocks = [
        *({**tool, "text": "tool"} for tool in body["tools"]),
        *body["system"],
        *(block for message in body["messages"] for block in message["content"]),
    ]
    assert [block["text"] for block in blocks if "cache_control" in block] == marked


async def test_schema_is_sent_in_the_subset_that_the_api_takes() -> None:
    schema = {
        "type": "object",
        "properties": {"score": {"type": "number", "minimum": 0}, "tone": {"enum": ["a", "b"]}},
        "required": ["score"],
    }
    body = await sent(json_schema=schema)
    assert body["output_config"]["format"] == snapshot(
        {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {
                    "score": {"type": "number", "description": "{minimum: 0}"},
                    "tone": {"enum": ["a", "b"]},
                },
                "additionalProperties": False,
                "required": ["score"],
            },
        }
    )


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("any", {"type": "any"}),
        ("fs.read", {"type": "tool", "name": "fs__read", "disable_parallel_tool_use": True}),
    ],
)
async def test_tool_choice(choice: str, wire: dict[str, Any]) -> None:
    body = await sent(tools=(READ_TOOL,), tool_choice=choice)
    assert body["tool_choice"] == wire
    assert body["tools"]


async def test_a_temperature_is_sent_where_one_is_asked_with_and_no_seed() -> None:
    """Which models take one is on their cards."""
    body = await sent(temperature=0.7, seed=3)
    assert body["temperature"] == 0.7
    assert "seed" not in body


OWN_THOUGHT = ThinkingBlock(
    type="thinking", model=CLAUDE, native={"type": "thinking", "thinking": "", "signature": "s"}
)
OTHERS_TURN = (user_message("Look."), call_message("a"), result_message("a"))
OWN_TURN = (
    user_message("Look."),
    Message(role="assistant", blocks=(OWN_THOUGHT, *call_message("a").blocks)),
    result_message("a"),
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="left open"),
        pytest.param({"thinking": "off"}, {"thinking": {"type": "disabled"}}, id="off"),
        pytest.param({"thinking": "adaptive"}, {"thinking": {"type": "adaptive"}}, id="adaptive"),
        pytest.param(
            {"thinking": 2_000, "max_tokens": 9_000},
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
            id="tokens",
        ),
        pytest.param(
            {"thinking": 8_000, "max_tokens": 4_256},
            {"thinking": {"type": "enabled", "budget_tokens": 4_000}},
            id="no more than leaves room for an answer",
        ),
        pytest.param({"thinking": 2_000, "max_tokens": 1_200}, {}, id="no room to think"),
        pytest.param(
            {"thinking": "adaptive", "temperature": 0.2},
            {"thinking": {"type": "adaptive"}},
            id="who thinks takes no temperature",
        ),
        pytest.param({"effort": "high"}, {"output_config": {"effort": "high"}}, id="effort"),
        pytest.param(
            {"thinking": 2_000, "max_tokens": 9_000, "messages": OTHERS_TURN},
            {},
            id="goes on with a turn of another model",
        ),
        pytest.param(
            {"thinking": 2_000, "max_tokens": 9_000, "messages": OWN_TURN},
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
            id="goes on with its own",
        ),
    ],
)
async def test_how_a_model_goes_about_it(changes: dict[str, Any], expected: object) -> None:
    body = await sent(**changes)
    names = ("thinking", "output_config", "temperature")
    assert {name: body[name] for name in names if name in body} == expected


async def test_effort_and_a_schema_go_together() -> None:
    body = await sent(effort="low", json_schema={"type": "object", "properties": {}})
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["type"] == "json_schema"


async def test_empty_system_is_left_out() -> None:
    assert "system" not in await sent(system=" ")


def shape(messages: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [
        (message["role"], [block.get("text", block["type"]) for block in message["content"]])
        for message in messages
    ]


THOUGHT = ThinkingBlock(
    type="thinking", model=CLAUDE, native={"type": "thinking", "thinking": "hm", "signature": "s"}
)
FOREIGN = THOUGHT.model_copy(update={"model": "claude-opus-5"})
SAID = TextBlock(type="text", text="yes")
A, B = user_message("a"), user_message("b")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            (user_message("a"), user_message("b")), [("user", ["a", "b"])], id="same roles merged"
        ),
        pytest.param(
            (user_message("a"), assistant_message(" "), user_message("b")),
            [("user", ["a", "b"])],
            id="empty text dropped",
        ),
        pytest.param(
            (assistant_message("draft"), user_message("fix")),
            [
                ("user", ["This is where the work stands:"]),
                ("assistant", ["draft"]),
                ("user", ["fix"]),
            ],
            id="opens with the user",
        ),
        pytest.param(
            (A, Message(role="assistant", blocks=(THOUGHT, SAID)), B),
            [("user", ["a"]), ("assistant", ["thinking", "yes"]), ("user", ["b"])],
            id="own thinking kept",
        ),
        pytest.param(
            (A, Message(role="assistant", blocks=(FOREIGN, SAID)), B),
            [("user", ["a"]), ("assistant", ["yes"]), ("user", ["b"])],
            id="thinking of another model dropped",
        ),
        pytest.param(
            (A, Message(role="assistant", blocks=(FOREIGN,)), B),
            [("user", ["a", "b"])],
            id="message of nothing but foreign thinking dropped",
        ),
        pytest.param(
            (user_message("a"), call_message("t"), user_message("b"), result_message("t")),
            [("user", ["a"]), ("assistant", ["tool_use"]), ("user", ["tool_result", "b"])],
            id="results first",
        ),
    ],
)
async def test_messages_are_put_right(messages: Any, expected: Any) -> None:
    body = await sent(messages=messages, tools=(READ_TOOL,))
    assert shape(body["messages"]) == expected


async def test_native_thinking_goes_back_as_it_came() -> None:
    said = Message(role="assistant", blocks=(THOUGHT, SAID))
    body = await sent(messages=(user_message("a"), said, user_message("b")))
    assert body["messages"][1]["content"][0] == THOUGHT.native


async def test_failed_tools_are_marked_and_empty_results_say_so() -> None:
    results = result_message("t", outcome="denied", text="")
    body = await sent(messages=(user_message("a"), call_message("t"), results))
    (result,) = body["messages"][2]["content"]
    assert result["is_error"] is True
    assert result["content"] == "(no output)"


TWIN = ToolOffer(name="fs__read", description="", parameters={"type": "object"})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"messages": ()}, "empty", id="no messages"),
        pytest.param({"messages": (user_message("  "),)}, "empty", id="blank messages"),
        pytest.param({"messages": (user_message("a"), call_message("t9"))}, "t9", id="open call"),
        pytest.param(
            {"messages": (user_message("a"), call_message("t1", "t2"), result_message("t1"))},
            "t2",
            id="half answered",
        ),
        pytest.param(
            {"messages": (user_message("a"), call_message("t1"), user_message("no"))},
            "t1",
            id="answered by text",
        ),
        pytest.param(
            {"messages": (user_message("a"), result_message("t5"))}, "t5", id="result without call"
        ),
        pytest.param({"max_tokens": 0}, "max_tokens is 0", id="no room"),
        pytest.param({"tool_choice": "fs.write", "tools": (READ_TOOL,)}, "fs.write", id="stranger"),
        pytest.param({"tool_choice": "any"}, "no tool is offered", id="any of none"),
        pytest.param({"tools": (READ_TOOL, TWIN)}, "fs__read on the wire", id="same wire name"),
        pytest.param({"json_schema": {"description": "x"}}, "schema", id="schema without type"),
    ],
)
async def test_what_the_api_would_refuse_is_not_sent(changes: dict[str, Any], named: str) -> None:
    provider = Provider(events(*hello()))
    with pytest.raises(ModelError, match=named) as caught:
        await say(provider.client(), request(**changes))
    assert caught.value.facts.kind == "bad_request"
    assert caught.value.facts.sent is False
    assert provider.bodies == []


def test_long_tool_names_stay_unique_and_short() -> None:
    offers = tuple(
        ToolOffer(name=f"mcp.{'x' * 80}.{n}", description="", parameters={"type": "object"})
        for n in range(2)
    )
    names = wire_request(request(tools=offers), CLAUDE_DIALECT).names
    assert list(names.values()) == [offer.name for offer in offers]
    assert {len(name) for name in names} == {64}


async def test_what_every_iteration_begins_with_is_marked_and_stays_byte_identical() -> None:
    brief = Brief(goal="Write the report.", context={"notes": "n " * 400}, plan="1. Start.")
    rubric = Rubric.model_validate([{"name": "tone", "hint": "warm", "evaluator": {"judge": {}}}])
    task = task_text(brief, rubric)
    drafts = ("first draft", "second draft", "third draft")
    later = [
        later_messages(task, previous=Compressed(text), feedback=f"- {n}", added="Guidance: short")
        for n, text in enumerate(drafts)
    ]
    unscored = later_messages(task, previous=None, feedback="it failed")
    bodies = [
        await sent(messages=messages, tools=(READ_TOOL,), cache="grow")
        for messages in (first_messages(brief, rubric, OutputSettings()), *later, unscored)
    ]
    prefixes = [
        json.dumps([body["system"], body["tools"], body["messages"][0]["content"][0]])
        for body in bodies
    ]
    assert len(set(prefixes)) == 1
    assert prefixes[0].count("cache_control") == 3, "after system, tools and the task"
    assert all(str(body).count("cache_control") == 4 for body in bodies)


async def test_an_hour_is_asked_for_at_every_mark() -> None:
    talk = (user_message("q1"), assistant_message("a1"), user_message("q2"))
    body = await sent(messages=talk, tools=(READ_TOOL,), cache="grow", cache_life="1h")
    # A longer mark must not follow a shorter one, so all have the same.
    assert str(body).count("{'type': 'ephemeral', 'ttl': '1h'}") == 4
    assert str(body).count("cache_control") == 4
