"""What a card says: what silence means, what a raise buys, and the scores of its fields."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from perdure.domain.budget.accounting import DIMENSIONS, BudgetLimits
from perdure.domain.evaluation.human_scores import BadScores, read_scores
from perdure.domain.run.gates import CHOICES, Gate, GateKind
from perdure.domain.run.status import BudgetStatus
from perdure.interfaces.web.inbox.cards import (
    MEANINGS,
    alike_of,
    limits_of,
    meanings_of,
    raise_buys,
    scores_text,
    silence_of,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)

SILENCE = {
    "a call is denied": ("tool_approval", "safe", "the call is denied, and the run goes on"),
    "a call, end": ("tool_approval", "end", "the run ends with the best result"),
    "a call, default": ("tool_approval", "default:yes", "the call is denied"),
    "a question ends the run": ("question", "safe", "the run ends with the best result"),
    "an escalation ends the run": ("escalation", "safe", "the run ends with the best result"),
    "a review ends the run": ("review", "end", "the run ends with the best result"),
    "a default": ("escalation", "default:accept", "the answer is “accept”"),
    "it waits": ("budget", "wait", "waits until somebody answers"),
}


@pytest.mark.parametrize(("kind", "policy", "words"), SILENCE.values(), ids=SILENCE)
def test_silence_is_told_in_words(kind: GateKind, policy: str, words: str) -> None:
    gate = Gate(
        id="g1", kind=kind, prompt="?", choices=("accept",), opened_at=NOW,
        deadline=NOW + timedelta(hours=2), on_expiry=policy,
    )  # fmt: skip
    told = silence_of(gate, NOW)
    assert words in told
    assert policy == "wait" or "04 May, 14:00 UTC (in 2 h)" in told


@pytest.mark.parametrize(
    ("spent", "limit", "iterations", "words"),
    [
        ("0.40", "2.00", 4, "An iteration cost $0.10 and 250 tokens so far; $2.00 more buy about"),
        ("0", "2.00", 4, "An iteration cost $0 and 250 tokens so far."),
        ("0.40", None, 4, "An iteration cost $0.10 and 250 tokens so far."),
        ("0.40", "2.00", 0, ""),
    ],
    ids=["by cost", "free of charge", "no limit", "before the first"],
)  # fmt: skip
def test_what_a_raise_buys(spent: str, limit: str | None, iterations: int, words: str) -> None:
    limits = BudgetLimits(cost_usd=None if limit is None else Decimal(limit))
    budget = BudgetStatus(limits=limits, tokens=1_000, cost_usd=Decimal(spent))
    told = raise_buys(budget, iterations)
    assert told.startswith(words)
    assert bool(told) == bool(words)


WORDS = {
    "plain": ({"score:tone": "0.5", "score:facts": "1", "words:tone": "stiff"}, "stiff"),
    "lines and names": (
        {"score:tone": "0.5", "score:facts": "1", "words:tone": "stiff\nfacts: 0.1; tone= 0"},
        "stiff facts – 0.1; tone – 0",
    ),
    "words behind a full score": (
        {"score:tone": "0.5", "score:facts": "1", "words:tone": "of it", "words:facts": "fine"},
        "of it",
    ),
}


@pytest.mark.parametrize(("fields", "gap"), WORDS.values(), ids=WORDS)
def test_fields_make_the_scores(fields: dict[str, str], gap: str) -> None:
    read = read_scores(scores_text(fields, ("tone", "facts")), ("tone", "facts"))
    assert not isinstance(read, BadScores)
    assert [(one.name, one.score) for one in read] == [("tone", 0.5), ("facts", 1.0)]
    assert read[0].gap == gap


def test_an_empty_field_is_refused_by_its_name() -> None:
    read = read_scores(scores_text({"score:tone": "0.5"}, ("tone", "facts")), ("tone", "facts"))
    assert isinstance(read, BadScores)
    assert "facts" in read.problem


ALIKE = {
    "the same": ({}, True),
    "another kind": ({"kind": "escalation"}, False),
    "another subject": ({"subject": "fs.write"}, False),
    "other choices": ({"choices": ("approve", "stop")}, False),
    "no choices": ({"choices": ()}, False),
    "scores": ({"scores": ("tone",)}, False),
}


@pytest.mark.parametrize(("changed", "alike"), ALIKE.values(), ids=ALIKE)
def test_only_what_takes_the_same_answers_is_alike(changed: dict[str, Any], alike: bool) -> None:
    gate = Gate(id="g1", kind="question", prompt="?", choices=("approve", "deny"), opened_at=NOW)
    other = alike_of(gate.model_copy(update={"id": "g2", "prompt": "??", **changed}))
    assert (other == alike_of(gate)) is alike
    assert bool(other) is (changed.get("choices") != () and "scores" not in changed)


@pytest.mark.parametrize("kind", MEANINGS)
def test_every_choice_of_these_kinds_says_what_it_leads_to(kind: GateKind) -> None:
    gate = Gate(id="g1", kind=kind, prompt="?", choices=CHOICES[kind], opened_at=NOW)
    assert [choice for choice, _ in meanings_of(gate)] == list(CHOICES[kind])


def test_a_question_of_a_model_names_its_own_choices() -> None:
    gate = Gate(id="g1", kind="question", prompt="?", choices=("stop",), opened_at=NOW)
    assert meanings_of(gate) == ()


def test_every_limit_that_can_be_spent_can_be_raised() -> None:
    limits = BudgetLimits(
        cost_usd=Decimal("0.50"), tokens=0, output_tokens=9, model_calls=1, tool_calls=2,
        iterations=3, workers=4, active_time=1.5, wall_time=60,
    )  # fmt: skip
    found = {one.name: one.figure for one in limits_of(BudgetStatus(limits=limits))}
    named = {"cost_usd" if name == "cost" else name for name in DIMENSIONS} - {"tokens"}
    assert set(found) == named, "tokens are not limited"
    assert (found["cost_usd"], found["active_time"], found["wall_time"]) == ("0.50", "1.5", "60")
