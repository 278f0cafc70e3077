"""Settings: where values come from, how wrong ones are refused, how children get them."""

import os
from pathlib import Path

import pytest

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.settings.variables import (
    GivenSettings,
    Settings,
    inherited_environment,
    unknown_variables,
)
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.redaction import REDACTED


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "TEMPORAL_", "ANTHROPIC_", "OPENAI_", "AZURE_OPENAI_")):
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


@pytest.mark.parametrize("name", ["home", "mcp_file", "api_host"])
def test_an_empty_place_is_refused_and_means_no_other(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match=f"PERDURE_{name.upper()}"):
        Settings.load(**{name: ""})
    monkeypatch.setenv(f"PERDURE_{name.upper()}", "")
    with pytest.raises(InvalidInput, match='found ""; allowed: a text that is not empty'):
        Settings.load()


@pytest.mark.parametrize("name", ["PERDURE_HOME", "PERDURE_PLUGINS"])
def test_a_path_of_no_user_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "~no-such-user/x.py")
    with pytest.raises(InvalidInput, match=r"the path '~no-such-user/x\.py'"):
        Settings.load()


def test_a_plugin_in_a_folder_that_is_gone_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("PERDURE_PLUGINS", "x.py")
    with pytest.raises(InvalidInput, match="current folder cannot be used"):
        Settings.load()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "PERDURE_ANTHROPIC_API_KEY"])
def test_the_key_is_read_and_masked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "sk-secret")
    settings = Settings.load()
    assert settings.anthropic_api_key is not None
    assert settings.anthropic_api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(settings)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "PERDURE_OPENAI_API_KEY"])
def test_keys_of_other_providers_are_read_and_masked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "sk-secret")
    settings = Settings.load()
    assert settings.openai_api_key is not None
    assert "sk-secret" not in repr(settings)
    assert settings.as_environment()["OPENAI_API_KEY"] == "sk-secret"


def test_a_key_that_looks_like_a_path_is_masked_and_the_path_of_a_file_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key, file = "/Jalr/XUtnFEMI7K7MDENGbPxRfiCY", tmp_path / "token-of-a-library"
    file.touch()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key)
    monkeypatch.setenv("OTHER_CREDENTIALS", str(file))
    Settings.load()
    assert without_secrets(f"{key} of {file}") == f"{REDACTED} of {file}"


def test_a_variable_that_is_no_text_hinders_nothing_and_stays_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell of another encoding; as Python has such bytes, they are halves of characters."""
    monkeypatch.setenv("OTHER_PASSWORD", "p\udce4ssw\udcf6rd1")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal:7233")
    assert Settings.load().temporal.address == "temporal:7233"
    assert without_secrets("as p\udce4ssw\udcf6rd1") == f"as {REDACTED}"
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "\udce4")
    with pytest.raises(InvalidInput, match="TEMPORAL_NAMESPACE holds other bytes than UTF-8"):
        Settings.load()


def test_servers_come_as_json_and_reach_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    given = '{"box": {"url": "http://127.0.0.1:1/v1", "key_variable": "BOX", "tools": false}}'
    monkeypatch.setenv("PERDURE_PROVIDERS", given)
    settings = Settings.load()
    assert settings.providers["box"].key_variable == "BOX"
    assert not settings.providers["box"].tools
    told = settings.as_environment()["PERDURE_PROVIDERS"]
    monkeypatch.setenv("PERDURE_PROVIDERS", told)
    assert Settings.load().providers == settings.providers


@pytest.mark.parametrize(
    "given",
    [
        pytest.param('{"Box!": {"url": "http://x"}}', id="name"),
        pytest.param('{"box": {"url": "x"}}', id="url"),
        pytest.param('{"box": {"url": "http://host:port/v1"}}', id="a word for a port"),
        pytest.param('{"box": {"url": "http://host:99999/v1"}}', id="no port has that number"),
        pytest.param('{"box": {}}', id="no url"),
        pytest.param("garbage", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param('{"box": {"url": "http://x", "tool": true}}', id="unknown field"),
        pytest.param('{"box": {"url": "http://x", "key_variable": "sk-1"}}', id="a key"),
    ],
)
def test_wrong_servers_are_refused_with_their_place(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_PROVIDERS", given)
    with pytest.raises(InvalidInput, match="PERDURE_PROVIDERS"):
        Settings.load()


@pytest.mark.parametrize(
    "entry",
    [
        '{"url": "http://x", "key": "raw-4711"}',
        '{"url": "http://x", "key_variable": "raw-4711"}',
        '{"key": "raw-4711"}',
        '{"url": "http://x", "key": "command:vault raw-4711", "key_variable": "BOX"}',
    ],
    ids=["in place of a reference", "in place of a name", "without a url", "of a program"],
)
def test_the_key_of_a_wrong_server_is_not_shown(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_PROVIDERS", f'{{"box": {entry}}}')
    with pytest.raises(InvalidInput, match="PERDURE_PROVIDERS: box") as caught:
        Settings.load()
    assert "raw-4711" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "PERDURE_MODEL_URL"],
)
@pytest.mark.parametrize("url", ["https://host:port/v1", "http://[::1/v1", "https://host:99999"])
def test_an_address_that_no_client_could_use_is_refused(
    name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, url)
    with pytest.raises(InvalidInput, match=f"{name}.*an address"):
        Settings.load()


def test_servers_of_a_file(tmp_path: Path) -> None:
    text = "providers:\n  box: {url: 'http://127.0.0.1:1/v1', free: true}\n"
    (tmp_path / "perdure.yaml").write_text(text, encoding="utf-8")
    assert Settings.load(home=tmp_path).providers["box"].free
    text = "providers:\n  box: {url: 'http://me:secret@127.0.0.1:1/v1'}\n"
    (tmp_path / "perdure.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="key_variable"):
        Settings.load(home=tmp_path)


def test_every_wrong_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_WORKERS", "many")
    monkeypatch.setenv("PERDURE_LOG_LEVEL", "loud")
    with pytest.raises(InvalidInput, match=r"PERDURE_LOG_LEVEL.*PERDURE_WORKERS"):
        Settings.load()


@pytest.mark.parametrize("given", ["inf", "nan", "1e300"])
@pytest.mark.parametrize("name", ["IDLE_MINUTES", "HEARTBEAT_S", "SHUTDOWN_GRACE_S"])
def test_a_time_without_an_end_is_refused(
    name: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PERDURE_{name}", given)
    with pytest.raises(InvalidInput, match=f"PERDURE_{name}"):
        Settings.load()


def test_a_rate_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_MODEL_CALLS_PER_SECOND", "inf")
    with pytest.raises(InvalidInput, match="PERDURE_MODEL_CALLS_PER_SECOND"):
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


@pytest.mark.parametrize(
    ("days", "good"), [(0, True), (7, True), (400, True), (1, False), (6, False)]
)
def test_the_journal_is_kept_for_a_week_at_least(days: int, good: bool) -> None:
    if good:
        assert Settings.load(journal_days=days).journal_days == days
        return
    with pytest.raises(InvalidInput, match="give 7 days at least, or 0 to keep all"):
        Settings.load(journal_days=days)


def test_settings_as_given_take_nothing_from_the_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = GivenSettings.found({"home": tmp_path}, files=False)
    for name, value in {
        "PERDURE_DATABASE_URL": "postgresql+asyncpg://prod/db",
        "PERDURE_NOTIFY_WEBHOOK": "https://hooks.example/x",
        "PERDURE_PROVIDERS": "no JSON",
        "PERDURE_PLUGINS": "theirs",
        "ANTHROPIC_API_KEY": "sk-ant-12345678",
        "TEMPORAL_ADDRESS": "cloud:7233",
        "TEMPORAL_NAMESPACE": "prod",
    }.items():
        monkeypatch.setenv(name, value)
    settings = GivenSettings.found({"home": tmp_path}, files=False)
    assert (settings, settings.namespace, settings.temporal) == (plain, "default", plain.temporal)
    assert settings.plugins == () and settings.anthropic_api_key is None
