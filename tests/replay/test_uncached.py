"""A worker that keeps no run in memory comes to the same result, by replaying every step."""

import pytest
from installation import Installation

from perdure.workflows.engine.run import AnyRun, Run

LIST = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
SCRIPT = {"replies": [LIST, {"text": "Empty."}]}


@pytest.mark.parametrize(("cached", "once"), [("0", False), ("1000", True)])
async def test_the_cache_changes_no_result(
    bare: Installation, monkeypatch: pytest.MonkeyPatch, cached: str, once: bool
) -> None:
    made = 0
    begin = Run.__init__

    def counted(self: AnyRun, *given: object, **more: object) -> None:
        nonlocal made
        made += 1
        begin(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "__init__", counted)
    monkeypatch.setenv("PERDURE_MAX_CACHED_WORKFLOWS", cached)
    async with bare.worker():
        result = await bare.run({"kind": "agent", "goal": "look"}, SCRIPT)
    assert (result.outcome, result.output, result.iteration_count) == ("accepted", "Empty.", 2)
    assert result.spend.model_calls == 2
    assert (made == 1) is once, f"the run was set up {made} times"
