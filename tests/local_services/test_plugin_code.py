"""Which files a plugin consists of: its own, and what it imports from beside it."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from perdure.adapters import plugin_modules
from perdure.adapters.plugin_modules import TOOL_GROUP
from perdure.local_services.plugin_code import code_digests, files_of

FILES = {
    "tools.py": "import os, helpers as h\nfrom parts.prices import price\n",
    "helpers.py": "import deep\n",
    "deep.py": "import tools  # a circle\n",
    "parts/__init__.py": "",
    "parts/prices.py": "price = 1\n",
    "other.py": "",
    "pack/__init__.py": "from . import inner\n",
    "pack/inner.py": "def broken(:\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


def hashes(folder: Path, plugin: str) -> dict[str, str]:
    return code_digests([str(folder / plugin), "installed_module"], lambda data: str(hash(data)))


@pytest.mark.parametrize(
    ("plugin", "files"),
    [
        ("tools.py", {"tools.py", "helpers.py", "deep.py", "parts/__init__.py", "parts/prices.py"}),
        ("pack", {"pack/__init__.py", "pack/inner.py"}),
        ("other.py", {"other.py"}),
    ],
)
def test_a_plugin_is_what_it_imports_from_beside_it(
    folder: Path, plugin: str, files: set[str]
) -> None:
    assert {str(file.relative_to(folder)) for file in files_of(folder / plugin)} == files


@pytest.mark.parametrize(
    ("edited", "counts"),
    [("tools.py", True), ("deep.py", True), ("parts/prices.py", True), ("other.py", False)],
)
def test_an_edit_counts_where_the_plugin_would_load_it(
    folder: Path, edited: str, counts: bool
) -> None:
    before = hashes(folder, "tools.py")
    assert list(before) == [f"the code of {folder / 'tools.py'}"]
    assert hashes(folder, "tools.py") == before
    (folder / edited).write_text("changed = True\n")
    assert (hashes(folder, "tools.py") != before) == counts


def test_the_code_of_an_installed_plugin_is_its_whole_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now(name: str) -> dict[str, str]:
        return code_digests([name], lambda data: str(hash(data)))

    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    before = {name: now(name) for name in ("pack", "pack.inner", "deep", "no_such_module")}
    assert [list(one) for one in before.values()] == [
        ["the code of pack"],
        ["the code of pack.inner"],
        ["the code of deep"],
        [],
    ]
    (folder / "pack" / "inner.py").write_text("changed = True\n")
    (folder / "tools.py").write_text("changed = True\n")
    assert {name for name in before if now(name) != before[name]} == {"pack", "pack.inner"}
    assert "pack" not in sys.modules, "it was imported"


def test_the_code_behind_an_entry_point_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("greet", "pack.inner:greet", TOOL_GROUP)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.setattr(
        plugin_modules,
        "installed_plugins",
        lambda *, group: EntryPoints([point] if group == TOOL_GROUP else []),
    )
    assert list(code_digests([], lambda data: str(hash(data)))) == ["the code of pack"]


def test_a_file_that_is_gone_is_no_error_here(folder: Path) -> None:
    (folder / "other.py").unlink()
    assert len(hashes(folder, "other.py")) == 1
