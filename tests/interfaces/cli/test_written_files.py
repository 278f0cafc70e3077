"""A place where no file can be written ends a command in words, with a cure."""

from types import SimpleNamespace

import pytest

from perdure.interfaces.cli.commands import experiment
from tests.interfaces.cli.memory import Installation, MemoryExperiments

FILE, FOLDER = "a-file", "a-folder"


@pytest.fixture(autouse=True)
def _places(perdure: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    (perdure.folder / FILE).write_text("mine", encoding="utf-8")
    (perdure.folder / FOLDER).mkdir()

    async def found(*_: object) -> SimpleNamespace:
        return SimpleNamespace(report=None)

    async def resolve(_: MemoryExperiments, name: str) -> str:
        return name

    monkeypatch.setattr(MemoryExperiments, "resolve", resolve, raising=False)
    monkeypatch.setattr(experiment, "read_report", found)
    monkeypatch.setattr(experiment, "markdown", lambda _: "# A report")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        pytest.param(("new", "a goal", "--to", FOLDER, "--force"), FOLDER, id="new"),
        pytest.param(("new", "a goal", "--to", f"{FILE}/t.yaml"), f"{FILE}/t.yaml", id="new below"),
        pytest.param(
            ("definitions", "interview-analysis", "--to", FILE),
            f"{FILE}/interview-analysis.yaml",
            id="task",
        ),
        pytest.param(("definitions", "harness", "--to", FILE), f"{FILE}/harness.yaml", id="loop"),
        pytest.param(("schema", "--write", FILE), FILE, id="schemas"),
        pytest.param(("experiment", "report", "e", "--to", FOLDER), FOLDER, id="report"),
    ],
)
def test_a_place_that_takes_no_file_is_named(
    perdure: Installation, words: tuple[str, ...], place: str
) -> None:
    assert perdure.run(*words) == 5
    said = "".join(perdure.err.split())  # a long path is wrapped
    assert "".join(f"{perdure.folder / place} cannot be written:".split()) in said
    option = next(word for word in words if word.startswith("--"))
    assert f"with{option}." in said
    assert (perdure.folder / FILE).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "words", [("schema", "--check"), ("api", "token", "create", "me", "--folder")]
)
def test_a_place_that_the_system_does_not_look_at_is_named(
    perdure: Installation, words: tuple[str, ...]
) -> None:
    assert perdure.run(*words, "a" * 300) == 2
    said = "".join(perdure.err.split())
    assert "aaaa" in said and "cannotbeused:Filenametoolong." in said
    assert "Nameanotherplace" in said


def test_folders_above_a_file_are_made(perdure: Installation) -> None:
    assert perdure.run("new", "a goal", "--to", "tasks/new/t.yaml") == 0
    assert (perdure.folder / "tasks" / "new" / "t.yaml").is_file()
    assert perdure.run("experiment", "report", "e", "--to", "out/report.md") == 0
    assert (perdure.folder / "out" / "report.md").read_text(encoding="utf-8") == "# A report"
