"""Which tools start or steer loops, whoever offers them."""

import pytest

from perdure.domain.tools.selection import LOOP_TOOLS, names_loop_tools, steers_loops


@pytest.mark.parametrize("name", LOOP_TOOLS)
@pytest.mark.parametrize("server", ["", "mcp.perdure.", "mcp.our-loops."])
def test_tools_that_steer_loops_are_told_also_behind_a_server(server: str, name: str) -> None:
    assert steers_loops(f"{server}{name}")


@pytest.mark.parametrize("name", ["fs.read", "mcp.video.loop_video", "loop", "loop_start.fs.read"])
def test_others_are_not(name: str) -> None:
    assert not steers_loops(name)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("loop_*", True),
        ("loop_start", True),
        ("mcp.perdure.loop_*", True),
        ("*", False),
        ("mcp.*", False),
        ("mcp.perdure.*", False),
    ],
)
def test_a_pattern_means_them_on_purpose(pattern: str, meant: bool) -> None:
    assert names_loop_tools(pattern) is meant
