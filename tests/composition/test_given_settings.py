"""An installation of given settings alone takes nothing from the shell, as in tests of users."""

from pathlib import Path

import pytest

from perdure.adapters.settings.variables import GivenSettings
from perdure.adapters.telemetry import Telemetry
from perdure.composition.parts import open_parts


async def test_no_collector_of_the_shell_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    settings = GivenSettings.found({"home": tmp_path}, files=False)
    async with open_parts(settings) as parts:
        assert parts.telemetry == Telemetry()
