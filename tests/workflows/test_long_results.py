"""A long result is shown in part, and says how to read on to those who can."""

import pytest
from agent_runs import call, calls, results, script, task
from installation import Installation


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        pytest.param({}, True, id="all tools"),
        pytest.param({"allow": ["probe.page", "artifact.read"]}, True, id="allowed"),
        pytest.param({"allow": ["probe.page"]}, False, id="not allowed"),
        pytest.param({"deny": ["artifact.read"]}, False, id="denied"),
        pytest.param({"filter": [{"only": ["probe."]}]}, False, id="filtered"),
    ],
)
async def test_only_who_can_read_on_is_told_to(
    probe: Installation, tools: dict[str, object], told: bool
) -> None:
    long = calls(call("probe.page", number=1, size=9_000))
    result = await probe.run(task(tools=tools), script(long, {"text": "Done."}))
    (shown,) = await results(probe, result)
    assert "characters left out" in shown.text
    assert ("read on with artifact.read" in shown.text) == told
