"""What a newcomer needs first is said first: how to install, to activate, and to name a key."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
ACTIVATE = "source .venv/bin/activate"
PAGES = ("README.md", "docs/index.md", "docs/tutorial.md")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_the_command_is_put_on_the_path_before_it_is_used(name: str) -> None:
    before, said, _ = text(name).partition(ACTIVATE)
    assert said
    used = re.findall(r"^perdure .+", before, re.MULTILINE)
    assert used == []


@pytest.mark.parametrize("tool", ["pip install", "uv tool install"])
def test_one_line_installs_it_elsewhere(tool: str) -> None:
    """With all that the README shows next: the embedded server, the page and the prompt."""
    (extras,) = re.findall(rf"`{tool} '\.\[([\w,]+)\]'`", text("README.md"))
    assert set(extras.split(",")) == {"local", "api", "repl"} <= EXTRAS.keys()


@pytest.mark.parametrize("target", ["setup", "demo"])
def test_make_ends_with_how_to_activate(target: str) -> None:
    made = subprocess.run(
        [
            "make", "--no-print-directory", "--always-make", "--dry-run",
            target, f"PYTHON={sys.executable}",
        ],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert made.stdout.splitlines()[-1].endswith(f'{ACTIVATE}"')


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_the_key_is_named_by_the_variable_that_is_read(name: str) -> None:
    assert "export ANTHROPIC_API_KEY=" in text(name)


def test_every_extra_that_a_page_names_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "docker-compose.yml"]
    named = {
        extra
        for page in pages
        for extras in re.findall(r"(?:perdure|'\.)\[([a-z, ]+)\]", page.read_text("utf-8"))
        for extra in extras.replace(" ", "").split(",")
    }
    assert named
    assert named <= EXTRAS.keys()
