"""Plugins of the settings: one that brings nothing is told, as is an activity without a queue."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from perdure.adapters.plugins import plugin_checks, plugin_tools, warn_of_idle
from perdure.domain.foundation.errors import InvalidInput
from perdure.extending.tool_decorator import Tool

PLAIN = "def short(output: str) -> float:\n    return 1.0\n"
CHECK = f'from perdure import check\n\n@check(name="idle.short")\n{PLAIN}'
HOOK = "from perdure import on_end\n\n@on_end\ndef tell(facts):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [(PLAIN, True), (CHECK, False), (HOOK, False)],
    ids=["nothing", "a check", "a hook"],
)
def test_a_plugin_that_brings_nothing_is_told(
    tmp_path: Path, request: pytest.FixtureRequest, text: str, told: bool
) -> None:
    path = tmp_path / f"{request.node.callspec.id.replace(' ', '_')}.py"
    path.write_text(text)
    with capture_logs() as logs:
        warn_of_idle([str(path)])
    named = [one["plugin"] for one in logs if one["event"] == "plugin_brings_nothing"]
    assert named == ([str(path)] if told else [])


ACTIVITY = """
from temporalio import activity
from perdure.temporal import activity_check, activity_tool

@activity.defn
async def weigh(output: str) -> float:
    \"\"\"Weigh a text.

    Args:
        output: the text.
    \"\"\"
    return 1.0

made = """


@pytest.mark.parametrize("maker", ["activity_check", "activity_tool"])
def test_an_activity_of_a_plugin_names_its_queue(tmp_path: Path, maker: str) -> None:
    without, within = (tmp_path / f"{maker}_{name}.py" for name in ("without", "within"))
    without.write_text(f"{ACTIVITY}{maker}(weigh)")
    load = plugin_checks if maker == "activity_check" else plugin_tools
    with pytest.raises(InvalidInput, match=r"activity 'weigh', which is the \w+ weigh, without"):
        load([str(without)])
    within.write_text(f"{ACTIVITY}{maker}(weigh, task_queue='scales')")
    checks, tools = plugin_checks([str(within)]), plugin_tools([str(within)])
    targets = [one.activity and one.activity.target for one in checks.values()]
    targets += [one.fact.activity for one in tools if isinstance(one, Tool)]
    assert [one and one.queue for one in targets] == ["scales"]
