"""Schedules from a shell: made from a task file, looked at, steered, ended."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli.memory import Installation

TASK = "goal: Write the news.\nkind: agent\n"


@pytest.fixture
def news(perdure: Installation) -> Path:
    """A task file, and a schedule of it on weekdays."""
    file = perdure.folder / "news.yaml"
    file.write_text(TASK, encoding="utf-8")
    perdure.remembers = True  # the audit trail
    assert perdure.run(
        "schedule", "create", "news", "news.yaml", "--cron", "0 9 * * MON-FRI",
        "--time-zone", "Europe/Berlin", "--month-usd", "20", "--catch-up", "2h",
    ) == 0, perdure.err  # fmt: skip
    return file


def test_a_task_file_becomes_a_schedule(perdure: Installation, news: Path) -> None:
    plan = perdure.schedules.kept["news"].plan
    assert (plan.kind, plan.goal, plan.overlap) == ("agent", "Write the news.", "skip")
    assert (plan.times.cron, plan.times.time_zone) == (("0 9 * * MON-FRI",), "Europe/Berlin")
    assert (str(plan.month.cost_usd), plan.month.tokens, plan.catch_up_s) == ("20", None, 7_200)
    assert plan.source == str(news)
    assert "0 9 * * MON-FRI in Europe/Berlin" in perdure.out
    assert "Mon 2026-03-02 11:00 CET" in perdure.out, "the next start, in its own zone"
    assert "$20.00 a month" in perdure.out


def test_it_goes_on_with_its_copy_when_the_file_changes_or_goes(
    perdure: Installation, news: Path
) -> None:
    perdure.run("schedule", "show", "news")
    assert "the file" not in perdure.out
    news.write_text(TASK + "label: x\n", encoding="utf-8")
    perdure.run("schedule", "show", "news")
    assert "the file has changed since; the schedule goes on with its copy" in perdure.out
    news.unlink()
    perdure.run("schedule", "show", "news")
    assert "the file is not on this machine; the schedule has a copy" in perdure.out
    assert perdure.run("schedule", "trigger", "news") == 0
    assert "started news-1" in perdure.out


def test_what_a_person_does_with_it(perdure: Installation, news: Path) -> None:
    assert perdure.run("schedule", "pause", "news", "--note", "on holiday") == 0
    assert "paused: on holiday" in perdure.out
    assert perdure.run("schedule", "trigger", "news") == 1
    assert "news: skipped, as a run is open" in perdure.out
    perdure.run("schedule", "show", "news")
    assert "1 start of this month refused: its budget is spent" in perdure.out
    assert "20 of 20 USD of this month are spent" in perdure.out
    assert perdure.run("schedule", "resume", "news") == 0
    assert perdure.run("schedule", "list", "--json") == 0
    (one,) = json.loads(perdure.out)["schedules"]
    assert (one["plan"]["name"], one["state"]) == ("news", "active")
    assert perdure.run("schedule", "delete", "news") == 0
    assert perdure.run("schedule", "show", "news") == 4
    assert perdure.run("schedule") == 0
    assert "Nothing is scheduled. Start a task by the clock" in perdure.out


WRONG = {
    "no times": ((), "either cron expressions or an interval"),
    "both": (("--cron", "0 9 * * *", "--every", "1h"), "either cron expressions or an interval"),
    "an interval that is none": (("--every", "often"), "--every: 'often' is not an interval"),
    "a zone": (("--every", "1h", "--time-zone", "Mars"), "there is no time zone 'Mars'"),
    "a budget": (("--every", "1h", "--month-usd", "-1"), "month.cost_usd"),
    "a policy": (("--every", "1h", "--overlap", "never"), "overlap"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_options_are_refused_in_words(
    perdure: Installation, options: tuple[str, ...], words: str
) -> None:
    assert perdure.run("schedule", "create", "news", "Write the news.", *options) == 2
    assert words in perdure.err
    assert perdure.schedules.kept == {}


def test_a_wrong_name_and_a_missing_file_are_told(perdure: Installation) -> None:
    assert perdure.run("schedule", "create", "The News", "Write.", "--every", "1h") == 2
    assert "name" in perdure.err
    assert perdure.run("schedule", "create", "news", "gone.yaml", "--every", "1h") == 4
    assert "There is no task file" in perdure.err
