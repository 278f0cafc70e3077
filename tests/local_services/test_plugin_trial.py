"""Plugins are loaded once aside, so that one that does not load ends no service."""

from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.local_services import plugin_trial
from perdure.local_services.plugin_trial import require_plugins
from perdure.local_services.state import HomeFiles

GOOD = """
import threading, time
from perdure import tool

print("a plugin may print")
threading.Thread(target=time.sleep, args=(600,)).start()

@tool(name="acme.greet", idempotent=True)
def greet() -> str:
    \"\"\"Say hello.\"\"\"
    return "hello"
"""
CHECK = (
    "from perdure import check\n\n@check(name='acme.short')\ndef short(output: str) -> bool: ...\n"
)
BROKEN = {
    "an error": ("x = y", r"NameError: name 'y' is not defined \(mine.py, line 1: x = y\)"),
    "an end": ("import sys; sys.exit(3)", r"it ended the process with sys.exit\(3\)"),
    "a hard end": ("import os; os._exit(0)", "it ended its process with exit code 0"),
    "a crash": ("import ctypes; ctypes.string_at(0)", "it ended its process with signal 11"),
    "a name twice": (CHECK, "Two plugins bring a check named acme.short"),
    "a wait": ("print('asking home')\nimport time; time.sleep(600)", "(?s)idle for .*asking home"),
}


@pytest.fixture
def home(tmp_path: Path) -> HomeFiles:
    files = HomeFiles(tmp_path / "home")
    files.make()
    return files


def settings(home: HomeFiles, *plugins: Path) -> Settings:
    return Settings.load(home=home.home, plugins=tuple(str(one) for one in plugins))


async def test_a_plugin_that_loads_may_print_and_keep_threads(
    home: HomeFiles, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    await require_plugins(settings(home, tmp_path / "mine.py"), home)
    assert "a plugin may print" in home.log("plugins").read_text()


@pytest.mark.parametrize(("code", "why"), BROKEN.values(), ids=BROKEN)
async def test_a_plugin_that_does_not_load_is_refused_with_the_reason(
    home: HomeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    monkeypatch.setattr(plugin_trial, "IDLE_WITHIN_S", 8.0)
    (tmp_path / "first.py").write_text(CHECK)
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(InvalidInput, match=why) as refused:
        await require_plugins(settings(home, tmp_path / "first.py", tmp_path / "mine.py"), home)
    assert refused.value.cure


async def test_plugins_of_another_worker_are_not_loaded_here(
    home: HomeFiles, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("raise ValueError")
    named = {"plugins": (str(tmp_path / "mine.py"),), "worker_command": ("python3.12", "mine")}
    await require_plugins(Settings.load(home=home.home, **named), home)
    assert not home.log("plugins").exists()
