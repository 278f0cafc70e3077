"""Plugins by module and by file, and what is said of one that does not load."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from perdure.adapters.plugins import plugin_checks, plugin_tools
from perdure.adapters.settings.layers import require_plugin_files
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.extending.tool_decorator import Tool

OURS = """
from beside import GREETING
from perdure import check, tool

@tool(name="acme.greet", idempotent=True)
def greet() -> str:
    \"\"\"Say hello.\"\"\"
    return GREETING

@check(name="acme.short")
def short(output: str) -> bool:
    return len(output) < 9
"""


def test_a_file_brings_tools_and_checks_and_imports_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mytools.py").write_text(OURS)
    (tmp_path / "beside.py").write_text("GREETING = 'hello'")
    monkeypatch.chdir(tmp_path)
    # What is added is taken back. `syspath_prepend` would go through caches that threads change.
    monkeypatch.setattr(sys, "path", list(sys.path))
    named = Settings.load(plugins="./mytools.py").plugins
    assert named == (str(tmp_path / "mytools.py"),)
    assert [tool.fact.name for tool in plugin_tools(named) if isinstance(tool, Tool)] == [
        "acme.greet"
    ]
    assert "acme.short" in plugin_checks(named)


BROKEN = {
    "an error": ("x = 1\nraise ValueError('not today')", "ValueError: not today (mine.py, line 2"),
    "no Python": ("def (", "(mine.py, line 1)"),
    "a decorator": (
        "from perdure import check\n\n@check\ndef spelt(output, n): ...",
        "The parameter 'n' of check spelt has no type annotation (mine.py, line 3",
    ),
    "a library": ("import json\njson.loads('{')", "(mine.py, line 2: json.loads('{'))"),
    "a module that is missing": ("import no_such_thing", "(mine.py, line 1: import no_such_thing)"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_a_plugin_that_fails_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    for load in (plugin_tools, plugin_checks):
        with pytest.raises(InvalidInput) as caught:
            load([str(tmp_path / "mine.py")])
        assert said in caught.value.message
        assert str(tmp_path / "mine.py") in caught.value.message


def test_what_is_not_found_says_how_to_name_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        plugin_tools(["mytools_that_nobody_has"])
    assert "--plugin ./mytools_that_nobody_has.py" in caught.value.cure
    with pytest.raises(InvalidInput) as caught:
        plugin_tools([str(tmp_path / "absent.py")])
    assert "file that exists" in caught.value.cure


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("a.py", False),
        ("package/", False),
        ("absent.py", True),
        ("empty/", True),
        ("a.py/b.py", True),
        ("module.that.nobody.has", False),
    ],
)
def test_files_of_plugins_are_looked_for_without_loading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, missing: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("package", "empty"):
        (tmp_path / folder).mkdir()
    for file in ("a.py", "package/__init__.py"):
        (tmp_path / file).write_text("raise RuntimeError")
    told = pytest.raises(InvalidInput, match="there is no such file")
    with told if missing else nullcontext():
        require_plugin_files(["a.py", name])


def test_a_folder_is_a_package_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ourtools"
    package.mkdir()
    (package / "__init__.py").write_text("from . import parts\nfrom .parts import greet\n")
    (package / "parts.py").write_text(OURS.replace("from beside import GREETING", "GREETING = 1"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for said in ("ourtools", "./ourtools"):
        named = Settings.load(plugins=said).plugins
        found = [one.fact.name for one in plugin_tools(named) if isinstance(one, Tool)]
        assert found == ["acme.greet"], said


@pytest.mark.parametrize("name", ["workflows", "activities"])
def test_a_plugin_beside_a_module_named_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('the module of a user')")
    (tmp_path / "mytools.py").write_text(
        OURS.replace("from beside import GREETING", "GREETING = 1")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert plugin_tools(Settings.load(plugins="mytools").plugins)


def test_an_installed_module_wins_over_one_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    assert Settings.load(plugins="yaml").plugins == ("yaml",)


def test_plugins_of_one_name_in_two_folders_are_each_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    runs = tmp_path / "runs"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"near_{tmp_path.name}.py").write_text("")
        text = OURS.replace("acme", folder).replace("from beside import GREETING", "GREETING = 1")
        said = f"open({str(runs)!r}, 'a').write({folder!r})"
        (tmp_path / folder / "mine.py").write_text(f"import near_{tmp_path.name}\n{text}\n{said}")
    named = [str(tmp_path / folder / "mine.py") for folder in ("a", "b")]
    with capture_logs() as logs:
        tools, checks, again = plugin_tools(named), plugin_checks(named), plugin_tools(named)
    assert [one.fact.name for one in tools if isinstance(one, Tool)] == ["a.greet", "b.greet"]
    assert (sorted(checks), again, runs.read_text()) == (["a.short", "b.short"], tools, "ab")
    told = [one for one in logs if one["event"] == "plugin_imports_another_file"]
    places = [(one["plugin"], Path(one["file"]).parent.name) for one in told]
    assert places == [(named[1], "b")]
