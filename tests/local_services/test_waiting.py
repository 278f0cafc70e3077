"""How a command waits for services that another one started, with stubs instead of services."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services import embedded
from perdure.local_services.embedded import EmbeddedRuntime
from perdure.local_services.processes import process_ref
from perdure.local_services.state import HomeFiles, PartState
from tests.local_services.support import write

MakeSettings = Callable[..., Settings]


async def test_a_service_that_does_not_come_back_is_named_with_its_last_words(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "RESTARTED_WITHIN_S", 0.2)
    down = PartState(name="worker", status="restarting", detail="ended with exit code 2")
    write(home, supervisor=process_ref(os.getpid()), status="starting", parts=(down,))
    HomeFiles(home).log("worker").write_text("mcp.yaml: servers must be a mapping\n")
    told: list[str] = []
    with pytest.raises(RuntimeUnavailable, match=r"(?s)exit code 2.*mcp.yaml: servers must"):
        await EmbeddedRuntime(settings_of()).ensure(told.append)
    assert told == ["worker: restarting (ended with exit code 2)"]
