"""Answers to a question below, as the run above judges them: it knows the choices in short."""

from datetime import UTC, datetime

import pytest

from perdure.domain.foundation.names import LONGEST_ID, RUN_ID
from perdure.domain.run.child_questions import (
    CHOICE_CHARACTERS,
    MOST_CHOICES,
    Question,
    QuestionsBelow,
    answer_below_refusal,
    question_of,
    questions_by_name,
)
from perdure.domain.run.child_runs import child_id
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "Use the second design, " + "with all that was said of it, " * 5
CHOICES = ("tea", LONG)


def asked(*choices: str) -> Question:
    gate = Gate(id="g1", kind="question", prompt="Which?", choices=choices, opened_at=NOW)
    return question_of("child", gate)


def refusal(question: Question, choice: str) -> str | None:
    return answer_below_refusal((question,), Answer(gate=question.gate, choice=choice))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_is_passed_on_whole_however_long_it_is(choice: str) -> None:
    assert refusal(asked(*CHOICES), choice) is None


def test_a_choice_that_nobody_offers_is_refused_here() -> None:
    assert "is not one of tea" in str(refusal(asked(*CHOICES), "coffee"))
    assert "is not one of" in str(refusal(asked(*CHOICES), LONG.upper()))


def test_the_beginning_of_a_long_choice_is_refused_with_the_way_to_the_whole() -> None:
    question = asked(*CHOICES)
    beginning = question.choices[1]
    assert len(beginning) == CHOICE_CHARACTERS
    assert "`perdure gates child`" in str(refusal(question, beginning))


def test_a_choice_behind_those_that_were_told_is_passed_on() -> None:
    many = tuple(f"choice {number}" for number in range(MOST_CHOICES + 5))
    assert refusal(asked(*many), many[-1]) is None
    assert refusal(asked(*many[: MOST_CHOICES - 1]), "another") is not None


def test_a_run_deep_in_a_tree_asks_and_is_answered_however_long_its_id_is() -> None:
    run = "a" * LONGEST_ID
    for number in range(10, 30):
        run = child_id(run, number, "research the market")
    assert RUN_ID.fullmatch(run)
    gate = Gate(id="g1", kind="question", prompt="Which?", choices=("tea",), opened_at=NOW)
    told = QuestionsBelow(run=run, questions=(question_of(run, gate),))
    named = Answer(gate=told.questions[0].key, choice="tea")
    assert questions_by_name(told.questions, named.gate) == told.questions
