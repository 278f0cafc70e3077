"""Rewrites hints for MCP callers: errors name shell commands, and agents have tools instead.

What only a person may do, such as answering, stays a command.
"""

import re

TOOLS = {
    "list": "run_list",
    "status": "loop_status",
    "watch": "run_wait",
    "result": "run_result",
    "gates": "loop_gates",
    "definitions": "run_tasks",
    "loops definitions": "loop_definitions",
}
ACTIONS = ("pause", "resume", "stop", "retry")
# Without backticks, the word after a command may belong to the sentence. Only a word with a dash
# counts as a run id there, as generated ids have dashes.
_RUN = r"(?: (?P<run>(?(tick)[\w.-]+|[\w.]+-[\w.-]*\w)))?"
_COMMAND = re.compile(
    rf"(?P<tick>`)?perdure (?P<verb>{'|'.join((*TOOLS, *ACTIONS))}){_RUN}(?(tick)`)(?![\w-])"
)


def over_mcp(words: str) -> str:
    """The same text with tools in place of commands."""
    return _COMMAND.sub(_tool, words)


def _tool(found: re.Match[str]) -> str:
    tick, verb, run = found["tick"] or "", found["verb"], found["run"]
    name = TOOLS.get(verb, "loop_control")
    given = [f"action {verb}"] if verb in ACTIONS else []
    given += [f"id {run}"] if run else []
    return f"{tick}{name}{tick}" + (f" with {' and '.join(given)}" if given else "")
