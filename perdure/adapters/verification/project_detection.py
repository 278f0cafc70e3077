"""Chooses the test program and the linter of a folder by its files."""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

# What kind of tests they are is told by the first of them, and by how each begins.
TESTS_READ = 400
READ_BYTES = 20_000
# A manifest that was cut could not be read.
MANIFEST_BYTES = 4_000_000
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "target", "__pycache__"})
_NO_TEST = "no test specified"
# Makes the folder itself importable, as `python -m pytest` does.
PYTHON_PATH = (("PYTHONPATH", "{folder}"),)


@dataclass(frozen=True, slots=True)
class Program:
    """A command for the files, with the variables that it needs."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def find_tests(folder: str) -> Program | None:
    """The test program of a folder; None if it has no tests of a known kind."""
    root = Path(folder)
    if _is_configured_for_pytest(root):
        return _PYTEST
    if _npm_test(root):
        return Program(("npm", "test", "--silent"))
    if _names(root, "Cargo.toml"):
        return Program(("cargo", "test", "--offline"))
    if _names(root, "go.mod"):
        return Program(("go", "test", "./..."))
    return _python_tests(root)


def find_linter(folder: str) -> Program | None:
    """The linter of a folder; None if no known one fits."""
    root = Path(folder)
    if _names(root, "ruff.toml", ".ruff.toml") or _has_table(root, "ruff"):
        return _RUFF
    if _names(root, ".flake8") or _has_section(root, "flake8"):
        return Program(("flake8", "."))
    if _is_configured_for_eslint(root):
        return Program(("eslint", "--format", "json", "."))
    return _RUFF if next(_files(root, ".py"), None) is not None else None


_PYTEST = Program(("pytest", "-q", "--color=no"), PYTHON_PATH)
_RUFF = Program(("ruff", "check", "--no-cache", "--output-format", "json", "."))


def _python_tests(root: Path) -> Program | None:
    tests = (path for path in _files(root, ".py") if _is_test_file(path.name))
    texts = [_text(path, READ_BYTES) for path in islice(tests, TESTS_READ)]
    if not texts:
        return None
    if any("pytest" in text or re.search(r"^(async )?def test_", text, re.M) for text in texts):
        return _PYTEST
    if not any("unittest" in text for text in texts):
        return _PYTEST
    # Without `__init__.py`, unittest finds tests in a subfolder only if told to start there.
    # `os.path` says no of what may not be looked at, where methods of `Path` raise.
    apart = os.path.isdir(root / "tests") and not os.path.exists(root / "tests" / "__init__.py")
    where = ("-s", "tests") if apart else ()
    return Program(("python3", "-m", "unittest", "discover", *where), PYTHON_PATH)


def _is_test_file(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py") or name == "tests.py"


def _is_configured_for_pytest(root: Path) -> bool:
    return (
        _names(root, "pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py")
        or _has_table(root, "pytest")
        or _has_section(root, "tool:pytest", files=("setup.cfg",))
        or _has_section(root, "pytest", files=("tox.ini",))
    )


def _npm_test(root: Path) -> bool:
    scripts = _package(root).get("scripts")
    test = scripts.get("test") if isinstance(scripts, dict) else None
    return isinstance(test, str) and _NO_TEST not in test


def _is_configured_for_eslint(root: Path) -> bool:
    _, folders, files = next(os.walk(root), ("", [], []))
    starts = ("eslint.config.", ".eslintrc")
    configured = any(name.startswith(starts) for name in (*folders, *files))
    return configured or "eslintConfig" in _package(root)


def _package(root: Path) -> dict[str, object]:
    try:
        value = json.loads(_text(root / "package.json") or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _has_table(root: Path, name: str) -> bool:
    try:
        tool = tomllib.loads(_text(root / "pyproject.toml")).get("tool")
    except (ValueError, RecursionError):
        return False
    return isinstance(tool, dict) and name in tool


def _has_section(
    root: Path, name: str, *, files: tuple[str, ...] = ("setup.cfg", "tox.ini")
) -> bool:
    return any(f"[{name}]" in _text(root / file) for file in files)


def _names(root: Path, *names: str) -> bool:
    return any(os.path.isfile(root / name) for name in names)


def _text(path: Path, most: int = MANIFEST_BYTES) -> str:
    # A link may lead out of the folder, and only the folder's own files count.
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    try:
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:  # a program of the run may have closed it
        return ""


def _files(root: Path, suffix: str) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        # Sorted, so that the first files are the same on every host.
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(suffix))
