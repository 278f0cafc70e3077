"""Plugins of the settings: one that brings nothing is told."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from perdure.adapters.plugins import warn_of_idle

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
