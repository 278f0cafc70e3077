"""Settings: where values come from, how wrong ones are refused, how children get them."""

import os
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings, inherited_environment, unknown_variables
from perdure.domain.foundation.errors import InvalidInput


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "TEMPORAL_", "ANTHROPIC_")):
            monkeypatch.delenv(name)


def test_defaults_need_no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings.load()
    assert settings.home == tmp_path / ".perdure"
    assert settings.store_url == f"sqlite+aiosqlite:///{tmp_path}/.perdure/perdure.sqlite"
    assert settings.temporal.address is None
    assert settings.namespace == "default"


def test_environment_then_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_WORKERS", "3")
    monkeypatch.setenv("PERDURE_ALLOW_COMMANDS", "git, make ,")
    monkeypatch.setenv("PERDURE_PLUGINS", '["a", "b"]')
    assert Settings.load().workers == 3
    assert Settings.load(workers=2).workers == 2
    assert Settings.load().allow_commands == ("git", "make")
    assert Settings.load().plugins == ("a", "b")


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "PERDURE_ANTHROPIC_API_KEY"])
def test_the_key_is_read_and_masked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "sk-secret")
    settings = Settings.load()
    assert settings.anthropic_api_key is not None
    assert settings.anthropic_api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(settings)


def test_every_wrong_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_WORKERS", "many")
    monkeypatch.setenv("PERDURE_LOG_LEVEL", "loud")
    with pytest.raises(InvalidInput, match=r"PERDURE_LOG_LEVEL.*PERDURE_WORKERS"):
        Settings.load()


def test_a_typing_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_WORKERZ", "2")
    monkeypatch.setenv("PERDURE_WORKERS", "2")
    assert unknown_variables() == ["PERDURE_WORKERZ"]


def test_temporal_variables_and_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(
        '[profile.cloud]\naddress = "cloud:7233"\nnamespace = "mine"\napi_key = "k"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    assert Settings.load().temporal.address is None
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    settings = Settings.load()
    assert (settings.temporal.address, settings.namespace) == ("cloud:7233", "mine")
    assert settings.temporal.api_key == "k"
    monkeypatch.setenv("TEMPORAL_ADDRESS", "other:1")
    assert Settings.load().temporal.address == "other:1"


def test_a_missing_profile_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_PROFILE", "nowhere")
    with pytest.raises(InvalidInput, match="TEMPORAL_PROFILE"):
        Settings.load()


def test_a_child_gets_the_same_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parent = Settings.load(
        home=tmp_path, workers=2, worker_command=("a", "b c"), plugins=("x",), anthropic_api_key="k"
    )
    for name, value in parent.as_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings.load() == parent


def test_a_minimal_environment_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    assert "sk-secret" in inherited_environment().values()
    assert "sk-secret" not in inherited_environment(minimal=True).values()
