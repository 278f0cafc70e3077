"""A person's scores: which answers are read, and which are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.human_scores import BadScores, read_scores, review_prompt
from perdure.domain.evaluation.rubric import Rubric


@pytest.mark.parametrize(
    ("text", "scores", "gaps"),
    [
        pytest.param("0.8", [0.8, 0.8], 2, id="one for all"),
        pytest.param("1", [1.0, 1.0], 0, id="full"),
        pytest.param("0.7 too long", [0.7, 0.7], 2, id="one with words"),
        pytest.param("tone: 0.6; depth: 1", [0.6, 1.0], 1, id="named"),
        pytest.param("Tone = .5, depth: 0.25", [0.5, 0.25], 2, id="commas"),
        pytest.param("tone: 0.6 too stiff, and cold\n- depth: 1.0", [0.6, 1.0], 1, id="lines"),
        pytest.param("tone: 1, fine; depth: 1.", [1.0, 1.0], 0, id="words behind a mark"),
        pytest.param("1 – of a kind", [1.0, 1.0], 0, id="words behind a dash"),
        pytest.param("0.5 (stiff)", [0.5, 0.5], 2, id="words in brackets"),
        pytest.param('{"tone": 0.6, "depth": 1}', [0.6, 1.0], 1, id="JSON"),
    ],
)
def test_answers_that_are_read(text: str, scores: list[float], gaps: int) -> None:
    found = read_scores(text, ("tone", "depth"))
    assert not isinstance(found, BadScores)
    assert [item.score for item in found] == scores
    assert sum(1 for item in found if item.gap) == gaps
    assert {item.source for item in found} == {"human"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "no score for tone, depth", id="empty"),
        pytest.param("looks good", "no score for tone, depth", id="words"),
        pytest.param("tone: 0.8", "no score for depth", id="one missing"),
        pytest.param("tone: 8; depth: 1", "8 of tone is not between 0 and 1", id="above one"),
        pytest.param("-0.5", "-0.5 of tone is not", id="below zero"),
        pytest.param("80%", "", id="percent"),
        pytest.param("8/10", "", id="fraction"),
        pytest.param("1 out of 10", "no score for tone", id="out of"),
        pytest.param("1 / 5", "no score for tone", id="a fraction with blanks"),
        pytest.param("1 of 5, weak", "no score for tone", id="of"),
        pytest.param("1-5", "no score for tone", id="a range"),
        pytest.param("1e-1", "no score for tone", id="an exponent"),
        pytest.param("tone: 1 star; depth: 1", "no score for tone", id="stars"),
        pytest.param("1 thing is missing: the ending", "no score for tone", id="a count"),
        pytest.param("1. it is bad", "no score for tone", id="an entry of a list"),
        pytest.param("0.8 for tone, 0.5 for depth", "no score for tone", id="names behind"),
        pytest.param("0.8 for Tone", "no score for tone", id="a name behind"),
        pytest.param("1, 0.2", "no score for tone", id="in order"),
        pytest.param("0.7, and 0.2 there", "no score for tone", id="another number"),
        pytest.param('{"tone": NaN, "depth": 1}', "does not know or", id="not a number"),
        pytest.param('{"tone": true, "depth": 1}', "no score for tone", id="true"),
        pytest.param('{"tone": {"score": 0.8}}', "no score for tone, depth", id="object"),
        pytest.param('{"tone": [0.8], "depth": 1}', "no score for tone", id="list"),
        pytest.param('{"tone": "0.8", "depth": 1}', "no score for tone", id="text"),
    ],
)
def test_answers_that_are_refused(text: str, said: str) -> None:
    found = read_scores(text, ("tone", "depth"))
    assert isinstance(found, BadScores)
    assert said in found.problem


@pytest.mark.parametrize("text", ["1 of 5", "1. it is bad", "0.8 for tone, 0.5 for depth"])
def test_a_run_from_before_reads_the_number_alone(text: str) -> None:
    assert not isinstance(read_scores(text, ("tone", "depth"), strictly=False), BadScores)


@pytest.mark.parametrize("text", ["QUALİTY: 0.8", "qualıty: 0.8"])
def test_another_letter_i_is_another_name(text: str) -> None:
    found = read_scores(text, ("quality",))
    assert isinstance(found, BadScores)
    assert "no score for quality" in found.problem


def test_words_behind_a_score_are_what_is_missing() -> None:
    found = read_scores("tone: 0.6 too stiff", ("tone",))
    assert not isinstance(found, BadScores)
    assert (found[0].gap, found[0].findings[0].title) == ("too stiff", "too stiff")
    assert found[0].capped == 0.6


@given(st.text(max_size=60))
def test_whatever_is_said_gives_scores_in_range_or_a_reason(text: str) -> None:
    found = read_scores(text, ("tone", "depth"))
    if isinstance(found, BadScores):
        assert found.problem
    else:
        assert all(item.score is not None and 0 <= item.score <= 1 for item in found)


def test_the_question_names_every_dimension() -> None:
    rubric = Rubric.model_validate(
        [
            {"name": "tone", "evaluator": {"human": {"prompt": "Would you send it?"}}},
            {"name": "long", "evaluator": {"check": "length", "unit": "words", "max": 3}},
        ]
    )
    asked = review_prompt(rubric, iteration=2, output=None, files="sha256:tree")
    assert "iteration 2" in asked
    assert "- tone: Would you send it?" in asked
    assert "long" not in asked
    assert "sha256:tree" in asked
