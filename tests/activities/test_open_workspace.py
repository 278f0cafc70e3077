"""What a task says of its tools by name holds for each tool that a pattern means."""

import pytest
from pydantic import JsonValue

from activities.open_workspace import _terms
from perdure.domain.run.activity_messages import OpenWorkspaceRequest
from perdure.domain.tools.definitions import ToolDefinition

POLL = ToolDefinition(name="poll.status", description="", parameters={}, timeout_s=60.0)


@pytest.mark.parametrize(
    ("tools", "timeout_s", "exempt"),
    [
        ({}, 30.0, False),
        ({"repeat_exempt": ["poll.status"]}, 30.0, True),
        ({"repeat_exempt": ["fs.*", "poll.*"]}, 30.0, True),
        ({"repeat_exempt": ["fs.*"]}, 30.0, False),
        ({"timeouts": {"poll.status": 90}}, 60.0, False),
        ({"timeouts": {"poll.*": 90}}, 60.0, False),
        ({"timeouts": {"fs.*": 90}}, 30.0, False),
    ],
)
def test_terms_follow_names_and_patterns(
    tools: dict[str, JsonValue], timeout_s: float, exempt: bool
) -> None:
    # The tool comes with the time that the selection gave it.
    step = OpenWorkspaceRequest.model_validate(
        {"run": "r", "source": None, "tools": tools, "tool_timeout_s": 30.0}
    )
    terms = _terms(POLL, step)
    assert (terms.timeout_s, terms.repeat_exempt) == (timeout_s, exempt)
