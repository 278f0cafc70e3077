"""`perdure.yaml`: what counts, where a value comes from, what is refused, who must be trusted."""

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.settings.config_files import ConfigFiles, edited
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.foundation.redaction import REDACTED
from perdure.local_services.apply_settings import brought, digests
from perdure.local_services.state import HomeFiles


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "TEMPORAL_", "ANTHROPIC_")):
            monkeypatch.delenv(name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def write(folder: Path, text: str) -> None:
    (folder / "perdure.yaml").write_text(text)


def loaded(home: Path, here: Path | None = None, **more: object) -> Settings:
    return Settings.found({"home": home, **more}, folder=here)


def test_home_then_folder_then_environment_then_flags(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded(home, here).model is None
    write(home, "model: of-home\nbudget: {cost_usd: 1}\n")
    assert loaded(home, here).model == "of-home"
    write(here, "model: of-folder\n")
    assert loaded(home, here).model == "of-folder"
    assert loaded(home).model == "of-home"
    monkeypatch.setenv("PERDURE_MODEL", "of-shell")
    assert loaded(home, here).model == "of-shell"
    assert loaded(home, here, model="of-flag").model == "of-flag"


def test_plugins_add_up_and_are_files_of_where_they_are_named(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in ((home, "a"), (here, "b"), (here, "c"), (here, "d")):
        (folder / f"{name}.py").touch()
    write(home, "plugins: [./a.py]\n")
    write(here, "plugins: b\n")
    ConfigFiles(home, here).trust()
    monkeypatch.setenv("PERDURE_PLUGINS", "c")
    found = loaded(home, here, plugins=("./d.py",)).plugins
    assert found == tuple(
        str(path) for path in (home / "a.py", here / "b.py", here / "c.py", here / "d.py")
    )


GUARDED = {
    "plugins": "plugins: ./evil.py",
    "programs": "allow_commands: [sh]",
    "a worker of its own": "worker_command: [sh, -c, id]",
    "where keys go": "anthropic_base_url: https://elsewhere.example",
    "a command of notices": "notify_command: sh -c id",
    "its own trust": "trust_skills: true",
    "the stores": "database_url: sqlite+aiosqlite:////tmp/x",
    "reads without a key": "encryption_plain: read",
}


@pytest.mark.parametrize("text", GUARDED.values(), ids=GUARDED)
def test_a_folder_says_what_runs_programs_once_it_is_trusted(
    home: Path, here: Path, text: str
) -> None:
    write(here, text)
    with pytest.raises(InvalidInput, match=text.partition(":")[0]) as caught:
        loaded(home, here)
    assert "perdure config --trust" in caught.value.cure
    assert ConfigFiles(home, here).trust() == here / "perdure.yaml"
    loaded(home, here)
    write(here, f"{text}\nworkers: 7")
    with pytest.raises(InvalidInput, match="workers"):
        loaded(home, here)


WRONG = {
    "a typo": ("plugin: ./x.py", "plugin: neither a setting .* did you mean plugins"),
    "a typo of a task's field": ("rubrik: []", "did you mean rubric"),
    "a key": ("anthropic_api_key: sk-1", "export PERDURE_ANTHROPIC_API_KEY"),
    "a key of encryption": ("encryption_key: aGVsbG8=", "env:NAME, file:PATH or command:PROGRAM"),
    "a password": ("database_url: postgresql+psycopg://me:secret@host/db", "password"),
    "a password among the options": (
        "database_url: postgresql+psycopg://host/db?user=me&password=secret@",
        "password",
    ),
    "an earlier key": ("encryption_old_keys: ['env:A', aGVsbG8=]", "env:NAME, file:PATH or"),
    "the home": ("home: /tmp/x", "PERDURE_HOME"),
    "what the supervisor sets": ("ready_file: /tmp/x", "by themselves"),
    "no number": ("workers: many", 'workers in .*perdure.yaml: found "many"; allowed: a whole'),
    "no port": ("metrics_address: 127.0.0.1:70000", "allowed: HOST:PORT with a port of at most"),
    "out of bounds": ("api_port: 99999", "allowed: at most 65535"),
    "in an entry": ("providers: {box: {url: x}}", "providers in .*perdure.yaml: box.url: found"),
    "a typo in an entry": (
        "providers: {box: {url: http://x, tool: true}}",
        "box.tool: there is no such field",
    ),
    "an entry that lacks a field": ("providers: {box: {}}", "box.url: found nothing"),
    "a block": ("plugins: {a: 1}", "allowed: a list"),
    "no fields": ("- a", "holds no fields"),
    "no YAML": ("a: [", "line 1"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_with_its_place(home: Path, text: str, said: str) -> None:
    write(home, text)
    with pytest.raises(InvalidInput, match=said) as caught:
        loaded(home)
    words = str(caught.value)
    assert "perdure.yaml" in words
    assert not any(secret in words for secret in ("sk-1", "aGVsbG8", "secret@"))


def test_services_follow_the_file_of_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "workers: 2\nmodel_calls_per_second: 3\n")
    files = HomeFiles(home)
    files.make()
    before = digests(files, loaded(home))
    monkeypatch.setenv("PERDURE_WORKERS", "5")
    shell = loaded(home)
    assert shell.workers == 5
    assert "PERDURE_WORKERS" not in shell.for_services()
    assert "PERDURE_WORKERS" not in shell.as_environment()
    assert brought(before, digests(files, shell)) == ()
    write(home, "workers: 2\n")
    assert brought(before, digests(files, loaded(home))) == (
        "perdure.yaml: model_calls_per_second",
    )
    write(home, "workers: 3\nmodel_calls_per_second: 3\n")
    assert brought(before, digests(files, loaded(home))) == ("perdure.yaml: workers",)


def test_services_get_the_plugins_of_the_folder_beside_those_of_the_home(
    home: Path, here: Path
) -> None:
    for folder, name in ((home, "a"), (here, "b")):
        (folder / f"{name}.py").touch()
        write(folder, f"plugins: ./{name}.py")
    ConfigFiles(home, here).trust()
    assert loaded(home, here).for_services()["PERDURE_PLUGINS"] == f'["{here / "b.py"}"]'


def test_each_setting_says_where_it_comes_from(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "workers: 2\nidle_minutes: 5")
    write(here, "log_level: debug")
    monkeypatch.setenv("PERDURE_WORKERS", "4")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-sees")
    found = {one.name: one for one in ConfigFiles(home, here).settings()}
    assert (found["workers"].value, found["workers"].source) == ("4", "PERDURE_WORKERS")
    assert found["workers"].services == "2"
    assert found["idle_minutes"].source == str(home / "perdure.yaml")
    assert found["log_level"].source == str(here / "perdure.yaml")
    assert found["api_port"].source == "default"
    assert found["anthropic_api_key"].source == "ANTHROPIC_API_KEY"
    assert "sk-nobody-sees" not in str(found)


def test_a_home_behind_a_link_needs_no_trust(home: Path, tmp_path: Path) -> None:
    write(home, "allow_commands: pytest")
    (tmp_path / "link").symlink_to(home)
    assert loaded(tmp_path / "link", home).allow_commands == ("pytest",)


def test_a_secret_in_the_wrong_place_is_not_listed(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_OLD_KEYS", "env:OLD,raw-key-4711")
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql+psycopg://h/db?password=pass-4711")
    found = {one.name: one.value for one in ConfigFiles(home, here).settings()}
    assert found["encryption_old_keys"] == "env:OLD, (set, not shown)"
    assert found["database_url"] == "(set, not shown)"
    assert without_secrets("raw-key-4711 pass-4711") == f"{REDACTED} {REDACTED}"


def test_setting_one_keeps_every_other_line(home: Path, here: Path) -> None:
    write(home, "# ours\nworkers: 2  # two\n\nbudget:\n  cost_usd: 1\n# the end\nplugins:\n  - x\n")
    desk = ConfigFiles(home, here)
    desk.put("plugins", "./a.py, ./b.py", here=False)
    desk.put("PERDURE_WORKERS", "3", here=False)
    desk.put("model", "claude-x", here=False)
    assert (home / "perdure.yaml").read_text() == (
        "# ours\nworkers: 3\n\nbudget:\n  cost_usd: 1\n# the end\n"
        "plugins: [./a.py, ./b.py]\nmodel: claude-x\n"
    )
    desk.put("plugins", None, here=False)
    assert "plugins" not in (home / "perdure.yaml").read_text()
    desk.put("plugins", "mine.py", here=True)
    loaded(home, here)  # who writes it there trusts it


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("model", "{", "{"),
        ("notify_command", "a: b: c", "a: b: c"),
        ("oidc_client_id", "123456", "123456"),
        ("deployment", "2024", "2024"),
        ("api", "off", "off"),
        ("trace_content", "on", "on"),
        ("trust_skills", "on", True),
        ("oidc_groups", '{"on": ["read"]}', {"on": ("read",)}),
        ("worker_command", '["a", "b, c"]', ("a", "b, c")),
    ],
)
def test_a_text_is_taken_as_it_is(
    home: Path, here: Path, name: str, text: str, value: object
) -> None:
    ConfigFiles(home, here).put(name, text, here=False)
    assert getattr(loaded(home), name) == value


@pytest.mark.parametrize("name", ["api", "local_model", "trace_content"])
@pytest.mark.parametrize("word", ["on", "off"])
def test_a_bare_on_or_off_of_yaml_is_the_word(home: Path, name: str, word: str) -> None:
    write(home, f"{name}: {word}")
    assert getattr(loaded(home), name) == word


REFUSED = {
    "no such setting": ("workerz", "2", "Did you mean workers"),
    "no number": ("workers", "many", "whole number"),
    "a secret": ("anthropic_api_key", "sk-1", "export"),
    "a key in clear": ("encryption_key", "abc", "env:NAME"),
    "an earlier key in clear": ("encryption_old_keys", '["env:A", "abc"]', "env:NAME"),
    "nothing": ("workers", "", "no value"),
    "one of a few": ("log_level", "loud", "one of debug, info"),
    "half a list": ("plugins", "[./a.py", "plugins cannot be read as a list: .* column 2"),
    "half a mapping": ("model_rates", "{", "model_rates cannot be read as YAML or JSON: line 1"),
    "no address": ("page_url", "@x", "PAGE_URL: found"),
}


@pytest.mark.parametrize(("name", "value", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_written(home: Path, here: Path, name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ConfigFiles(home, here).put(name, value, here=False)
    assert not (home / "perdure.yaml").exists()


@pytest.mark.parametrize(
    "text",
    [
        "  workers: 3\n  log_level: info\n",
        "workers: 3\nlog_level: info\n...\n",
        "---\nworkers: 3\nlog_level: info\n...\n# the end\n",
    ],
)
def test_a_field_is_added_where_the_others_are(home: Path, here: Path, text: str) -> None:
    write(home, text)
    ConfigFiles(home, here).put("model", "m", here=False)
    found = loaded(home)
    assert (found.workers, found.log_level, found.model) == (3, "info", "m")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"model: [a\n", "line 2, column 1"), (b"model: na\xefve\n", "is not UTF-8 text")],
)
def test_a_file_that_cannot_be_read_is_not_edited(
    home: Path, here: Path, data: bytes, said: str
) -> None:
    (home / "perdure.yaml").write_bytes(data)
    with pytest.raises(InvalidInput, match=said):
        ConfigFiles(home, here).put("workers", "2", here=False)
    assert (home / "perdure.yaml").read_bytes() == data


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        pytest.param("model: &m a\nmax_open_runs: 3\npage_url: *m\n", "model", "b", id="an anchor"),
        pytest.param("max_open_runs: &n 3\nworkers: *n\n", "max_open_runs", None, id="named again"),
        pytest.param("max_open_runs: &n 3\nworkers: *n\nmodel: a\n", "workers", "4", id="an alias"),
        pytest.param("? workers\n: 3\n", "workers", "4", id="a key with its mark"),
    ],
)
def test_no_file_becomes_another_than_was_meant(
    home: Path, here: Path, text: str, name: str, value: str | None
) -> None:
    """YAML's rarer forms: the change is made rightly, or not at all."""
    write(home, text)
    with pytest.raises(InvalidInput, match=r"cannot change") as refused:
        ConfigFiles(home, here).put(name, value, here=False)
    assert refused.value.cure == f"Change `{name}` in an editor."
    assert (home / "perdure.yaml").read_text() == text


@pytest.mark.parametrize("text", ["~\n", "null  # nothing yet\n", "# nothing yet\n"])
def test_a_file_of_nothing_takes_a_field(home: Path, here: Path, text: str) -> None:
    write(home, text)
    ConfigFiles(home, here).put("workers", "4", here=False)
    assert loaded(home).workers == 4


def test_a_file_that_is_a_link_stays_one(home: Path, here: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.yaml"
    kept.write_text("model: a\n")
    (home / "perdure.yaml").symlink_to(kept)
    ConfigFiles(home, here).put("workers", "4", here=False)
    assert (home / "perdure.yaml").is_symlink()
    assert kept.read_text() == "model: a\nworkers: 4\n"


def test_a_place_that_cannot_be_written_is_named(home: Path, here: Path) -> None:
    (home / "taken").write_text("a file")
    with pytest.raises(NotAllowed, match=r"taken/perdure\.yaml cannot be written"):
        ConfigFiles(home / "taken", here).put("workers", "2", here=False)


def test_services_differ_only_where_values_do(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "allow_commands: [make, git]\ntrust_skills: true\nworkers: 3\n")
    monkeypatch.setenv("PERDURE_ALLOW_COMMANDS", "make, git")
    monkeypatch.setenv("PERDURE_TRUST_SKILLS", "yes")
    monkeypatch.setenv("PERDURE_WORKERS", "2")
    told = {one.name: one.services for one in ConfigFiles(home, here).settings() if one.services}
    assert told == {"workers": "3"}


# PyYAML itself does not read a NEL again that it wrote.
WORDS = st.text(st.characters(exclude_characters="\x85", exclude_categories=["Cs"]), max_size=9)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.one_of(st.integers(), WORDS, st.lists(WORDS, max_size=3)),
    ),
    st.booleans(),
)
def test_an_edit_changes_one_field(fields: dict[str, object], flow: bool) -> None:
    text = yaml.safe_dump(fields, allow_unicode=True, default_flow_style=flow) if fields else ""
    assert yaml.safe_load(edited(text, "b", [1, 2])) == fields | {"b": [1, 2]}
    left = {name: value for name, value in fields.items() if name != "b"}
    assert (yaml.safe_load(edited(text, "b", None)) or {}) == left


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PERDURE_WORKERS", "many"),
        ("PERDURE_WORKERS", "-1"),
        ("PERDURE_LOG_LEVEL", "loud"),
        ("PERDURE_TRUST_SKILLS", "perhaps"),
        ("PERDURE_BACKOFF_MAX_S", "soon"),
        ("PERDURE_WORKER_COMMAND", "[1"),
        ("PERDURE_PLUGINS", "[1"),
    ],
)
def test_wrong_variables_are_told_in_words_of_people(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match=f"{name}: found .*; allowed: ") as caught:
        Settings.load()
    assert not any(word in str(caught.value) for word in ("Input should", "valid tuple", "unable"))
