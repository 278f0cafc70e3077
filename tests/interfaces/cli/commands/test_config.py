"""Settings on the command line: shown with their source, set, taken out, trusted; plugins named."""

import json

import pytest

from tests.interfaces.cli.memory import Installation


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_WORKERS", raising=False)


def test_a_setting_is_set_shown_and_taken_out(perdure: Installation) -> None:
    file = perdure.folder / "home" / "perdure.yaml"
    assert perdure.run("config", "workers", "2") == 0
    assert perdure.out.strip() == f"✓ workers is set in {file}"
    assert perdure.run("config", "workers", "--json") == 0
    told = json.loads(perdure.out)["settings"]
    assert told == [{"name": "workers", "value": "2", "source": str(file), "services": ""}]
    assert perdure.run("config") == 0
    first = perdure.out.splitlines()
    assert first[0].split() == ["setting", "value", "from"]
    assert any(row.split() == ["workers", "2", str(file)] for row in first)
    assert perdure.run("config", "workers", "--unset") == 0
    assert perdure.run("config", "workers", "--json") == 0
    assert json.loads(perdure.out)["settings"][0]["source"] == "default"


def test_a_folder_that_is_not_trusted_yet(perdure: Installation) -> None:
    (perdure.folder / "perdure.yaml").write_text("allow_commands: [make]\n")
    assert perdure.run("config") == 2
    assert "perdure config --trust" in perdure.err
    assert perdure.run("config", "--trust") == 0
    assert perdure.run("config", "allow_commands") == 0
    assert "make" in perdure.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["config", "workerz"], 4, "Did you mean workers"),
        (["config", "workers", "many"], 2, "found"),
        (["config", "workers", "2", "--unset"], 2, "takes no value"),
        (["config", "--here"], 2, "need a setting"),
        (["config", "anthropic_api_key", "sk-1"], 2, "export PERDURE_ANTHROPIC_API_KEY"),
    ],
)
def test_what_is_refused(perdure: Installation, words: list[str], code: int, said: str) -> None:
    assert perdure.run(*words) == code
    assert said in perdure.err
    assert "sk-1" not in perdure.err.partition("export")[0]


@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_plugin_is_named_with_the_command(perdure: Installation, command: str) -> None:
    (perdure.folder / "task.yaml").write_text("kind: agent\ngoal: g\nplugins: []\n")
    perdure.run(command, "task.yaml", "--plugin", "./a.py", "--plugin", "b")
    assert "plugins: ./a.py, b" in perdure.calls


def test_settings_in_a_file_of_defaults_are_no_fields_of_a_task(perdure: Installation) -> None:
    (perdure.folder / "perdure.yaml").write_text("workers: 2\nbudget: {tokens: 777}\n")
    (perdure.folder / "sub").mkdir()
    (perdure.folder / "sub" / "perdure.yaml").write_text("plugins: [x.py]\n")
    for task in ("task.yaml", "sub/task.yaml"):
        (perdure.folder / task).write_text("kind: agent\ngoal: g\n")
    assert perdure.run("validate", "task.yaml", "--json") == 0
    assert json.loads(perdure.out)["spec"]["budget"]["tokens"] == 777
    assert perdure.run("validate", "sub/task.yaml") == 0
    assert "plugins count for commands that are given in that folder" in perdure.out
