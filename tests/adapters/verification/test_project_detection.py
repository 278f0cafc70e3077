"""The test program and the linter that fit a folder."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from unprivileged import unprivileged

from perdure.adapters.verification.project_detection import find_linter, find_tests

PLAIN_TEST = "def test_a():\n    pass\n"
UNITTEST = "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
NO_TEST = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'
LONG = "x" * 100_000


def laid_out(root: Path, files: Mapping[str, str]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(root)


@pytest.mark.parametrize(
    ("files", "argv"),
    [
        pytest.param({"pytest.ini": ""}, "pytest -q", id="pytest.ini"),
        pytest.param(
            {"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest -q", id="pyproject"
        ),
        pytest.param({"setup.cfg": "[tool:pytest]\n"}, "pytest -q", id="setup.cfg"),
        pytest.param({"tests/test_a.py": PLAIN_TEST}, "pytest -q", id="functions"),
        pytest.param({"test_a.py": UNITTEST}, "python3 -m unittest discover", id="unittest"),
        pytest.param(
            {"tests/test_a.py": UNITTEST},
            "python3 -m unittest discover -s tests",
            id="unittest in a folder",
        ),
        pytest.param(
            {"package.json": '{"scripts": {"test": "jest"}}'}, "npm test --silent", id="npm"
        ),
        pytest.param({"Cargo.toml": "[package]"}, "cargo test --offline", id="cargo"),
        pytest.param({"go.mod": "module a"}, "go test ./...", id="go"),
        pytest.param(
            {**{f"docs/{number}.md": "" for number in range(401)}, "tests/test_a.py": PLAIN_TEST},
            "pytest -q",
            id="behind many files",
        ),
        pytest.param(
            {"package.json": f'{{"about": "{LONG}", "scripts": {{"test": "jest"}}}}'},
            "npm test --silent",
            id="a long package.json",
        ),
        pytest.param(
            {"pyproject.toml": f"about = '{LONG}'\n[tool.pytest.ini_options]\n"},
            "pytest -q",
            id="a long pyproject",
        ),
        pytest.param({"package.json": NO_TEST}, None, id="npm without tests"),
        pytest.param({"package.json": "{broken"}, None, id="broken package.json"),
        pytest.param({"pyproject.toml": "[broken"}, None, id="broken pyproject"),
        pytest.param({"pyproject.toml": f"a = {'1' * 5_000}"}, None, id="a number without end"),
        pytest.param({"README.md": "hello", "calc.py": "x = 1\n"}, None, id="no tests"),
        pytest.param({"node_modules/a/test_a.py": PLAIN_TEST}, None, id="tests of others"),
    ],
)
def test_tests(tmp_path: Path, files: Mapping[str, str], argv: str | None) -> None:
    found = find_tests(laid_out(tmp_path, files))
    assert (found is None) == (argv is None)
    assert found is None or " ".join(found.argv).startswith(argv or "")


@pytest.mark.parametrize(
    ("files", "program"),
    [
        pytest.param({"ruff.toml": ""}, "ruff", id="ruff.toml"),
        pytest.param({"pyproject.toml": "[tool.ruff]\n"}, "ruff", id="pyproject"),
        pytest.param({".flake8": "[flake8]\n", "a.py": ""}, "flake8", id="flake8"),
        pytest.param({"tox.ini": "[flake8]\n"}, "flake8", id="tox.ini"),
        pytest.param({"eslint.config.mjs": ""}, "eslint", id="eslint"),
        pytest.param({"package.json": '{"eslintConfig": {}}'}, "eslint", id="package.json"),
        pytest.param({"a.py": ""}, "ruff", id="Python without a configuration"),
        pytest.param(
            {**{f"docs/{number}.md": "" for number in range(401)}, "src/a.py": ""},
            "ruff",
            id="Python behind many files",
        ),
        pytest.param({"README.md": ""}, None, id="nothing"),
    ],
)
def test_linters(tmp_path: Path, files: Mapping[str, str], program: str | None) -> None:
    found = find_linter(laid_out(tmp_path, files))
    assert (found.argv[0] if found else None) == program


def test_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"scripts": {"test": "jest"}}')
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "package.json").symlink_to(outside)
    assert find_tests(str(inside)) is None


JEST = '{"scripts": {"test": "jest"}}'


@pytest.mark.parametrize(
    ("files", "closed", "tests", "linter"),
    [
        ({"package.json": JEST, "test_a.py": UNITTEST}, "package.json", "python3", "ruff"),
        (
            {"pyproject.toml": "[tool.pytest]\n", "package.json": JEST},
            "pyproject.toml",
            "npm",
            None,
        ),
        ({"test_a.py": UNITTEST}, "test_a.py", "pytest", "ruff"),
        ({"tests/test_a.py": UNITTEST, "package.json": JEST}, "tests", "npm", None),
        ({"package.json": JEST}, ".", None, None),
    ],
)
def test_what_a_run_closed_to_itself_is_passed_over(
    files: Mapping[str, str], closed: str, tests: str | None, linter: str | None
) -> None:
    with unprivileged() as folder:
        work = laid_out(folder / "work", files)
        (folder / "work" / closed).chmod(0)
        found = (find_tests(work), find_linter(work))
    assert [one and one.argv[0] for one in found] == [tests, linter]
