"""The page for engineers names tests, make targets and lines of `perdure doctor` that exist."""

import re
from functools import partial
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.operations import doctor

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][2:]
CODE = re.compile(r"`([^`]+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][2:40])
def test_what_shows_an_answer_exists(row: list[str]) -> None:
    commands = CODE.findall(row[2])
    assert commands
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        missing = [
            word
            for word in command.split()
            if word.startswith("tests/") and not (ROOT / word).exists()
        ]
        assert missing == []
        program, *words = command.split()
        assert program in {"make", "pytest", "python"}
        if program == "make":
            assert f"\n{words[0]}:" in makefile


def test_every_line_of_the_doctor_that_is_named_is_one_of_its_own(tmp_path: Path) -> None:
    told = Settings.load(home=tmp_path, blobs="file:///tmp")
    looks = (
        partial(doctor._of_this_host, told),
        partial(doctor._of_services, told),
        partial(doctor._of_runs, told, lambda **_: None),  # type: ignore[arg-type,return-value]
    )
    names = {name for look in looks for name, _ in look()} | {doctor.SERVER, doctor.STORES}
    named = {name for row in ROWS for name in CODE.findall(row[3])}
    assert named - names == set()
