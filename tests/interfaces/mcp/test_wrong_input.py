"""What is wrong in a call of a tool is named, and the cure is something that its caller can do."""

import pytest
from mcp import Client

from perdure.interfaces.mcp.handler import over_mcp
from perdure.interfaces.mcp.server import build_server

PAIRS: dict[str, object] = {"definition": "pair", "goal": "x"}
WRONG: dict[str, tuple[str, dict[str, object], str]] = {
    "missing": ("loop_start", {"goal": "x"}, "definition: found nothing; allowed: a value"),
    "unknown": ("loop_start", PAIRS | {"gaol": "x"}, "gaol: found an argument"),
    "kind": ("loop_start", PAIRS | {"goal": 5}, "goal: found 5; allowed: a text"),
    "empty": ("loop_start", PAIRS | {"goal": ""}, "a text that is not empty"),
    "bound": ("loop_start", PAIRS | {"max_iterations": 0}, "max_iterations: found 0; allowed: at"),
    "object": ("loop_start", PAIRS | {"parameters": [1]}, "parameters: found [1]"),
    "name": ("loop_start", PAIRS | {"definition": "nope"}, 'found "nope"; allowed: one of'),
    "choice": ("loop_list", {"status": "foo"}, "status: found 'foo'"),
    "no argument": ("loop_gates", {"run": "x"}, "allowed: no argument"),
    "task": ("run_start", {"task": "nope"}, "There is no task 'nope'"),
    "run to look at": ("loop_status", {"id": "nope"}, "no run nope. `run_list` lists all runs"),
    "run to steer": ("loop_control", {"id": "nope", "action": "pause"}, "`run_list` lists all"),
    "action": ("loop_control", {"id": "all", "action": "halt"}, "halt"),
    "action beside a run": ("loop_control", {"id": "nope", "action": "halt"}, "halt"),
    "run beside an action": ("loop_control", {"id": "nope", "action": "halt"}, "no run nope"),
    "run to wait for": ("run_wait", {"id": "nope"}, "There is no run nope. `run_list`"),
    "run to read": ("run_result", {"id": "nope"}, "There is no run nope. `run_list`"),
    "text to read": ("run_text", {"id": "nope", "ref": "x"}, "There is no run nope. `run_list`"),
    "settings": ("run_start", {"goal": "x", "settings": [1]}, "settings: found [1]"),
    "text of settings": ("run_start", {"goal": "x", "settings": "{a"}, "settings: found '{a'"),
    "tool": ("loop_stat", {}, "There is no tool 'loop_stat'. Did you mean loop_start?"),
}


async def test_a_wrong_call_is_named(door):
    async with Client(build_server(door.mcp)) as client:
        for name, (tool, arguments, words) in WRONG.items():
            answer = await client.call_tool(tool, arguments)
            told = " ".join(getattr(part, "text", "") for part in answer.content)
            assert answer.is_error, name
            assert words in told, name
            assert "Traceback" not in told, name


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("`perdure result a-1` shows it.", "`run_result` with id a-1 shows it."),
        ("Stop it: perdure stop a-1.", "Stop it: loop_control with action stop and id a-1."),
        ("`perdure loops definitions` names them.", "`loop_definitions` names them."),
        ("`perdure result one` shows it.", "`run_result` with id one shows it."),
        ("perdure result shows it.", "run_result shows it."),
        ("`perdure answer` is for a person.", "`perdure answer` is for a person."),
        ("perdure api token list", "perdure api token list"),
    ],
)
def test_commands_become_tools(words: str, told: str) -> None:
    assert over_mcp(words) == told
