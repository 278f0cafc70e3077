"""What README and docs show is what the product takes: commands, tasks, Python, as they stand."""

import io
import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cyclopts import App, CycloptsError
from rich.console import Console

from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.cli.app import build
from perdure.interfaces.cli.invoke import JSON_FLAG

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4}(perdure .+)$", re.MULTILINE)
READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}
INLINE = re.compile(r"`(?:[A-Z_]+=\S+ )*(perdure [^`]+)`")


def blocks(page: Path, *languages: str) -> list[str]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def shell_lines(page: Path) -> list[str]:
    """The commands of a page's blocks: in fences, indented, and after a prompt."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page, "sh", "bash") for line in block.splitlines()]
    lines += INDENTED.findall(FENCE.sub("", text))
    lines += [
        line[2:]
        for block in blocks(page, "text", "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    words = [re.sub(r"^([A-Z_]+=\S+ +)+", "", line.strip()) for line in lines]
    return [line for line in words if line.startswith("perdure")]


def commands_of(line: str) -> list[list[str]]:
    """The words of each `perdure` of a line, which may join several."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(";&|<>"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [words[1:] for words in commands if words[:1] == ["perdure"]]


SHOWN = [(page.name, line) for page in PAGES for line in shell_lines(page)]
NAMED = [
    (page.name, said)
    for page in PAGES
    for said in INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
]


@pytest.fixture(scope="module")
def app() -> App:
    console = Console(file=io.StringIO())
    return build("0", console, console)


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_command_in_a_block_is_taken_as_it_stands(page: str, line: str, app: App) -> None:
    taken(app, line)


def taken(app: App, line: str) -> None:
    """Parse each command of a line; nothing is called."""
    for words in commands_of(line):
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize(("page", "said"), NAMED)
def test_a_command_in_a_sentence_exists_with_its_options(page: str, said: str, app: App) -> None:
    for words in commands_of(said):
        assert unknown(app, words) == []


def unknown(app: App, words: list[str]) -> list[str]:
    """The commands and options among the words that there are none of; values are left alone."""
    if set(words) <= {*app.help_flags, *app.version_flags}:
        return []
    _, chain, rest = app.parse_commands(words)
    if len(chain) == 1:
        return [word for word in words[:1] if word.isalpha() and word.islower()]
    known = {name for one in chain[-1].assemble_argument_collection() for name in one.names}
    known |= {JSON_FLAG, *chain[-1].help_flags, *chain[-1].version_flags}
    return [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]


TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_made_is_a_target(page: Path) -> None:
    shown = [line for block in blocks(page, "sh", "bash") for line in block.splitlines()]
    said = re.findall(r"`(make [^`]+)`", FENCE.sub("", page.read_text(encoding="utf-8")))
    named = [words.split()[1] for words in (*shown, *said) if words.startswith("make ")]
    assert {name for name in named if "=" not in name} <= TARGETS


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("perdure rum task.yaml", id="no such command"),
        pytest.param("perdure run task.yaml --budgets 3", id="no such option"),
        pytest.param("perdure up && perdure loops begin harness", id="the second of two"),
        pytest.param("perdure answer", id="what it needs is missing"),
    ],
)
def test_what_does_not_exist_is_found(line: str, app: App) -> None:
    with pytest.raises(CycloptsError):
        taken(app, line)


@pytest.mark.parametrize("said", ["perdure rum", "perdure run --budgets 3", "perdure up --detatch"])
def test_what_a_sentence_gets_wrong_is_found(said: str, app: App) -> None:
    (words,) = commands_of(said)
    assert unknown(app, words)


def tasks() -> list[tuple[str, str]]:
    """The blocks that are whole tasks, by page."""
    found = [(page.name, text) for page in PAGES for text in blocks(page, "yaml")]
    read = [(name, text) for name, text in found if isinstance(yaml.safe_load(text), dict)]
    return [(name, text) for name, text in read if "goal" in yaml.safe_load(text)]


@pytest.mark.parametrize(("page", "text"), tasks())
def test_a_task_is_valid(page: str, text: str) -> None:
    RUN_SPEC.validate_python({"kind": "agent"} | yaml.safe_load(text))


@pytest.mark.parametrize(
    ("page", "language", "text"),
    [(page.name, one, text) for page in PAGES for one in READERS for text in blocks(page, one)],
)
def test_data_can_be_read(page: str, language: str, text: str) -> None:
    READERS[language](text)


def test_every_block_says_what_it_is() -> None:
    told = {language for page in PAGES for language, _ in FENCE.findall(page.read_text("utf-8"))}
    shown = {"", "text", "markdown"}  # drawings, and what a program prints or a file holds
    # The one block of `js` is run in tests/adapters/test_webhook_signing.py.
    assert told - shown <= {"sh", "bash", "console", "python", "js", "ts", *READERS}
    assert sum(len(blocks(page, "js")) for page in PAGES) == 1


PYTHON = [(page.name, text) for page in PAGES for text in blocks(page, "python")]


@pytest.mark.parametrize(("page", "text"), PYTHON)
def test_python_compiles(page: str, text: str) -> None:
    inside = "".join(f"    {line}\n" for line in text.splitlines())
    compile(f"async def shown():\n{inside}", page, "exec")


@pytest.mark.parametrize("text", [text for name, text in PYTHON if name == "extending.md"])
def test_python_for_extensions_runs(text: str) -> None:
    exec(compile(text, "extending.md", "exec"), {})
