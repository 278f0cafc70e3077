"""An experiment that is looked at: its figures, what a start would refuse, and how it goes on."""

import json

import pytest

from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.foundation.errors import InvalidInput, StoreAway
from perdure.interfaces.cli import follow_experiment
from tests.interfaces.cli.memory import Installation

FILE = """\
task:
  kind: agent
  goal: Write.
  context: {about: null}
  budget: {cost_usd: 2, tokens: 1000}
inputs: [{about: a, expected: b}]
score: labels
arms: {one: {}}
"""
DRY_RUN = ("experiment", "e.yaml", "--dry-run", "--json")


def written(perdure: Installation, text: str) -> None:
    (perdure.folder / "e.yaml").write_text(text, encoding="utf-8")


def test_a_dry_run_knows_prices_and_starts_nothing(perdure: Installation) -> None:
    written(perdure, FILE)
    assert perdure.run(*DRY_RUN) == 0
    (arm,) = json.loads(perdure.out)["plan"]["arms"]
    assert (arm["most_usd"], arm["most_tokens"]) == ("0.00", 1000)  # the embedded model is free
    assert perdure.calls == ["connect", "disconnect"]


def test_a_dry_run_refuses_a_budget_below_one_run(perdure: Installation) -> None:
    written(perdure, FILE + "budget: {tokens: 999}\n")
    assert perdure.run(*DRY_RUN) == 2
    assert "one run of one may use 1000" in perdure.out + perdure.err


def test_a_dry_run_looks_for_the_loop(perdure: Installation) -> None:
    perdure.gateway.check_error = InvalidInput("There is no loop team.")
    written(perdure, FILE.replace("kind: agent", "kind: roles\n  roles: {definition: team}"))
    assert perdure.run(*DRY_RUN) == 2
    assert "arms.one: There is no loop team." in perdure.out + perdure.err


def test_the_list_has_all_experiments(perdure: Installation) -> None:
    plan = Plan(name="n", arms=(Arm(name="one", task={}),))
    perdure.experiments.started = [(plan, ())] * 250
    assert perdure.run("experiment", "list", "--json") == 0
    found = [one["id"] for one in json.loads(perdure.out)["experiments"]]
    assert found == [f"exp-{number:03}" for number in range(250)]


def test_a_program_gets_one_document_of_a_report(perdure: Installation) -> None:
    plan = Plan(name="n", arms=(Arm(name="one", task={}),))
    perdure.experiments.started = [(plan, (Entry(name="a"),))]
    report = ("experiment", "report", "exp-1")
    assert perdure.run(*report, "--json") == 0
    assert json.loads(perdure.out)["type"] == "experiment_report"
    for form in ("csv", "jsonl", "markdown", "svg"):
        assert perdure.run(*report, "--format", form, "--json") == 2
        assert f"--format {form} and --json contradict each other" in perdure.err
    assert perdure.run(*report, "--format", "csv", "--to", "a.csv", "--json") == 0
    path = json.loads(perdure.out)["path"]
    assert path == str(perdure.folder / "a.csv")
    assert (perdure.folder / "a.csv").read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.parametrize("amount", ["nan", "inf"])
def test_an_amount_that_is_no_number_is_refused_in_our_words(
    perdure: Installation, amount: str
) -> None:
    assert perdure.run("experiment", "resume", "exp-1", "--cost-usd", amount) == 2
    assert "for --cost-usd. Allowed: a finite number." in perdure.err
    assert "pydantic" not in perdure.err


@pytest.fixture
def away(perdure: Installation, monkeypatch: pytest.MonkeyPatch) -> list[StoreAway]:
    """The errors that whoever asks for an experiment's state gets first, one after the other."""
    status, errors = perdure.experiments.status, list[StoreAway]()

    async def fickle(id: str) -> ExperimentStatus:
        if errors:
            raise errors.pop()
        return await status(id)

    monkeypatch.setattr(perdure.experiments, "status", fickle)
    perdure.remembers = True  # the audit trail
    monkeypatch.setattr(follow_experiment, "POLL_S", 0.01)
    written(perdure, FILE)
    return errors


def test_an_experiment_is_followed_over_an_absence_of_the_store(
    perdure: Installation, away: list[StoreAway]
) -> None:
    away += [StoreAway("The database is locked.")] * 3
    assert perdure.run("experiment", "e.yaml", "--id", "exp-1") == 0
    assert perdure.err.count("The database is locked.") == 1, "it is said once"
    assert "The store answers again." in perdure.err
    assert "ended: all trials have ended" in perdure.err


def test_a_store_that_stays_away_ends_the_following_and_not_the_experiment(
    perdure: Installation, away: list[StoreAway], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_experiment, "STORE_BACK_WITHIN_S", 0.05)
    away += [StoreAway("The database is locked.")] * 1_000
    assert perdure.run("experiment", "e.yaml", "--id", "exp-1") == 3
    assert "It goes on: perdure experiment status exp-1" in perdure.err
