"""What of a prompt is marked for the provider's cache: only what a later call will read."""

import pytest

from perdure.domain.llm.requests import cache_use

AGENT = {"converses": True, "tools_off": False, "rounds": 0, "agent": True, "followed": None}
DRAFT = {**AGENT, "agent": False}
ALONE = {**DRAFT, "converses": False}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(AGENT, "grow", id="an agent's first call"),
        pytest.param({**AGENT, "rounds": 3}, "grow", id="a later one"),
        pytest.param({**AGENT, "rounds": 3, "followed": False}, "read", id="its last"),
        pytest.param({**AGENT, "followed": False}, "none", id="its only one"),
        pytest.param({**AGENT, "rounds": 1, "tools_off": True}, "fixed", id="closing text"),
        pytest.param({**AGENT, "tools_off": True}, "none", id="closing text at once"),
        pytest.param(DRAFT, "none", id="a draft that may need no tool"),
        pytest.param({**DRAFT, "followed": True}, "first", id="and another is sure to come"),
        pytest.param({**DRAFT, "rounds": 1}, "grow", id="a draft with tool results"),
        pytest.param({**DRAFT, "rounds": 1, "tools_off": True}, "none", id="nothing written yet"),
        pytest.param({**DRAFT, "rounds": 2, "tools_off": True}, "fixed", id="something written"),
        pytest.param({**DRAFT, "rounds": 1, "followed": False}, "none", id="nothing to read"),
        pytest.param(ALONE, "none", id="a judge, a plan, a draft without tools"),
        pytest.param({**ALONE, "followed": True}, "first", id="one part of several"),
    ],
)
def test_only_what_a_later_call_reads_is_marked(call, expected: str) -> None:
    assert cache_use(**call) == expected
