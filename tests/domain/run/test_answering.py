"""The command that answers a gate can be pasted, whatever a model wrote into its choices."""

import shlex
import subprocess

import pytest

from perdure.domain.run.answering import answer_command, choice_line, choices_told

HOSTILE = (
    "$(touch owned)",
    "`touch owned`",
    "a; touch owned",
    "a | touch owned",
    "a' ; touch owned ; '",
    "a\ntouch owned",
    "\u202enekot",
    ") ; touch owned #",
)


@pytest.mark.parametrize("choice", HOSTILE, ids=range(len(HOSTILE)))
def test_pasted_into_a_shell_it_runs_nothing_of_a_model(tmp_path, choice: str) -> None:
    whole = answer_command("run-1:g1", ("Use Postgres", choice))
    told = choices_told((choice,))
    for line in (whole, f"true {told}"):
        assert line.isprintable(), "one line, with nothing hidden in it"
        subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True)
        assert not list(tmp_path.iterdir())
    assert shlex.split(told) == [choice_line(choice)]


def test_pasted_as_it_is_it_takes_no_choice() -> None:
    told = answer_command("run-1:g1-abab", ("approve", "deny"), beside=' --text "why"')
    assert told == 'perdure answer run-1:g1-abab CHOICE --text "why"  (approve, deny)'
    assert answer_command("run-1:g2", ()) == 'perdure answer run-1:g2 "your answer"'


def test_long_and_many_choices_are_cut() -> None:
    told = answer_command("run-1:g1", ["x" * 5_000] * 1_000)
    assert len(told) < 4_000
    assert "… " not in told and told.endswith(" and 984 more)")
