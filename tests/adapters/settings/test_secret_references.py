"""Secrets by reference: followed in one place, bounded, without a shell, and never repeated."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import eventually

from perdure.adapters.llm.access import access_from, lacking_models
from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.mcp.server_config import AllowedServers
from perdure.adapters.settings import secret_references
from perdure.adapters.settings.secret_references import MOST_BYTES, resolve_reference, secret_value
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.mcp_servers import ServerSpec
from perdure.operations.doctor_secrets import references

SECRET = "correct-horse-battery-staple"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "TEMPORAL_", "ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(secret_references, "_answers", {})


def program(folder: Path, body: str) -> str:
    """A reference to a program with this body."""
    path = folder / "vault"
    path.write_text(f"#!{sys.executable} -IS\nimport os, sys, time, subprocess\n{body}\n")
    path.chmod(0o700)
    return f"command:{json.dumps([str(path)])}"


def test_each_way_leads_to_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEWHERE", SECRET)
    (tmp_path / "key").write_text(f"{SECRET}\n")
    found = {
        "plain": secret_value("X", SECRET),
        "env": secret_value("X", "env:SOMEWHERE"),
        "file": secret_value("X", f"file:{tmp_path / 'key'}"),
        "command": secret_value("X", f"command:printf %s {SECRET}"),
        "list": secret_value("X", f'command:["echo", "{SECRET}"]'),
    }
    assert found == dict.fromkeys(found, SECRET)
    assert SECRET not in without_secrets(f"the key is {SECRET}")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        pytest.param(SECRET, "holds no reference", id="no reference"),
        pytest.param("env:NOT_SET", "env:NOT_SET, but that variable is not set", id="no variable"),
        pytest.param("file:/no/such", r"file:/no/such, but it cannot be read \(No", id="no file"),
        pytest.param("file:~no-such-user/key", "nobody knows the user", id="no user"),
        pytest.param("file:/", "cannot be read", id="a folder"),
        pytest.param("file:/dev/null", "but it is empty", id="an empty file"),
        pytest.param("file:/dev/zero", f"more than {MOST_BYTES} bytes", id="an endless file"),
        pytest.param("command:no-such-vault", "cannot be started", id="no program"),
        pytest.param("command:'", "words cannot be read", id="an open quote"),
        pytest.param("command:[1]", "words cannot be read", id="a list of numbers"),
        pytest.param("command:false", r"command:false …, but it ended with 1", id="it fails"),
        pytest.param("command:true", "but it is empty", id="it says nothing"),
        pytest.param("command:yes", f"more than {MOST_BYTES} bytes", id="it never ends to speak"),
    ],
)
def test_what_leads_nowhere_names_place_reference_and_cure(reference: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        resolve_reference("PERDURE_X", reference)
    assert caught.value.message.startswith("PERDURE_X ")
    assert caught.value.cure
    assert SECRET not in str(caught.value)


def test_no_shell_runs(tmp_path: Path) -> None:
    made = tmp_path / "made"
    found = resolve_reference("X", f"command:echo $(touch {made}) ; touch {made} | cat > {made}")
    assert found.startswith("$(touch")
    assert not made.exists()


def test_arguments_of_a_command_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve_reference("X", f"command:false --token {SECRET}")
    assert SECRET not in str(caught.value)


async def test_a_command_that_hangs_ends_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_references, "COMMAND_TIMEOUT_S", 1.0)
    pid = tmp_path / "pid"
    body = (
        "child = subprocess.Popen(['sleep', '3600'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\ntime.sleep(3600)"
    )
    with pytest.raises(InvalidInput, match="took longer than 1 s"):
        resolve_reference("X", program(tmp_path, body))
    child = int(pid.read_text())
    await eventually(lambda: not _lives(child))


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_runs_once_without_our_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other-secret")
    monkeypatch.setenv("VAULT_TOKEN", "for-the-vault")
    count = tmp_path / "count"
    body = (
        f"open({str(count)!r}, 'a').write('.')\n"
        "print(os.environ.get('ANTHROPIC_API_KEY'), os.environ['VAULT_TOKEN'])"
    )
    reference = program(tmp_path, body)
    assert [resolve_reference("X", reference) for _ in range(3)] == ["None for-the-vault"] * 3
    assert count.read_text() == "."


def test_settings_hold_the_reference_and_follow_it_at_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(SECRET)
    (tmp_path / "url").write_text(f"postgresql://me:{SECRET}@127.0.0.1:9/db")
    (tmp_path / "perdure.yaml").write_text(
        "anthropic_api_key: file:key\n"
        "database_url: file:url\n"
        "notify_webhook: command:printf https://hooks.example/T0K3N\n"
        "providers: {box: {url: 'http://127.0.0.1:1/v1', key: 'file:key'}}\n"
    )
    monkeypatch.setenv("TEMPORAL_ADDRESS", "cloud.example:7233")
    monkeypatch.setenv("TEMPORAL_API_KEY", "env:CLOUD")
    monkeypatch.setenv("CLOUD", "the-cloud-key")
    settings = Settings.load(home=tmp_path)
    assert SECRET not in json.dumps({**settings.for_services(), **settings.as_environment()})
    assert SECRET not in repr(settings)
    access = access_from(settings)
    assert (access.api_key, access.server_keys) == (SECRET, {"box": SECRET})
    assert settings.store_url == f"postgresql://me:{SECRET}@127.0.0.1:9/db"
    assert settings.secret("notify_webhook") == "https://hooks.example/T0K3N"
    assert settings.temporal.api_key == "the-cloud-key"
    assert references(settings).found == "4 references lead to a secret"


def test_a_provider_whose_key_is_away_hinders_no_other(tmp_path: Path) -> None:
    (tmp_path / "perdure.yaml").write_text(
        "providers: {box: {url: 'http://127.0.0.1:1/v1', key: 'file:/no/such'}}\n"
    )
    settings = Settings.load(home=tmp_path)
    lacking = lacking_models(access_from(settings))["compat:box"]
    assert lacking.startswith("The key of the provider 'box' refers to file:/no/such, but")
    looked = references(settings)
    assert (looked.state, "'box' refers to" in looked.found) == ("failed", True)


def test_a_task_narrows_what_references_a_server_gets() -> None:
    entry = {"command": ["git-server"], "env": ["HOME_ONE"], "env_from": {"TOKEN": "file:/t"}}
    book = AllowedServers.model_validate({"servers": {"git": entry}})
    whole = book.admitted(ServerSpec(name="git"))
    assert (whole.env, whole.env_from) == (("HOME_ONE",), {"TOKEN": "file:/t"})
    narrowed = book.admitted(ServerSpec(name="git", env=("TOKEN",)))
    assert (narrowed.env, narrowed.env_from) == ((), {"TOKEN": "file:/t"})
    with pytest.raises(InvalidInput, match="env differ"):
        book.admitted(ServerSpec(name="git", env=("ELSE",)))


def test_a_process_says_which_reference_leads_nowhere(tmp_path: Path) -> None:
    environment = {**os.environ, "PERDURE_HOME": str(tmp_path), "PERDURE_DATABASE_URL": "env:NO"}
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "perdure", "list"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "PERDURE_DATABASE_URL refers to env:NO, but that variable is not set" in ended.stderr
