"""Real services in a temporary home, with a worker that only announces itself; all are stopped."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from tests.local_services.support import WORKER, free_port, python

MakeSettings = Callable[..., Settings]
MakeRuntime = Callable[..., EmbeddedRuntime]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the developer has set must not steer the tests."""
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "TEMPORAL_", "ANTHROPIC_")):
            monkeypatch.delenv(name)


@pytest.fixture
def settings_of(home: Path) -> MakeSettings:
    """Settings of the temporary home, with a stub worker and no model unless told otherwise."""

    names = ("temporal_port", "ui_port", "model_port", "codec_port", "api_port")
    ports = {name: free_port() for name in names}

    def make(**overrides: object) -> Settings:
        stubs = {"home": home, "local_model": "off", "api": "off"} | ports
        stubs |= {"worker_command": python(WORKER)}
        return Settings.load(**(stubs | overrides))

    return make


@pytest.fixture
async def runtime_of(settings_of: MakeSettings) -> AsyncIterator[MakeRuntime]:
    made: list[EmbeddedRuntime] = []

    def make(**overrides: object) -> EmbeddedRuntime:
        made.append(EmbeddedRuntime(settings_of(**overrides)))
        return made[-1]

    try:
        yield make
    finally:
        for runtime in made:
            await runtime.down()


@pytest.fixture
def runtime(runtime_of: MakeRuntime) -> EmbeddedRuntime:
    return runtime_of()
