"""Errors come from parts that all interfaces share; their cures name commands, and here tools.

What only a person may do, such as an answer, stays a command.
"""

import re

TOOLS = {
    "list": "loop_list",
    "status": "loop_status",
    "watch": "run_wait",
    "result": "run_result",
    "gates": "loop_gates",
    "definitions": "run_tasks",
    "loops definitions": "loop_definitions",
}
ACTIONS = ("pause", "resume", "stop", "retry")
# Outside of ticks a word that follows may be of the sentence; ids that are made have dashes.
_RUN = r"(?: (?P<run>(?(tick)[\w.-]+|[\w.]+-[\w.-]*\w)))?"
_COMMAND = re.compile(
    rf"(?P<tick>`)?perdure (?P<verb>{'|'.join((*TOOLS, *ACTIONS))}){_RUN}(?(tick)`)(?![\w-])"
)


def over_mcp(words: str) -> str:
    """The same words with tools in place of commands."""
    return _COMMAND.sub(_tool, words)


def _tool(found: re.Match[str]) -> str:
    tick, verb, run = found["tick"] or "", found["verb"], found["run"]
    name = TOOLS.get(verb, "loop_control")
    given = [f"action {verb}"] if verb in ACTIONS else []
    given += [f"id {run}"] if run else []
    return f"{tick}{name}{tick}" + (f" with {' and '.join(given)}" if given else "")
