"""Names that outsiders use."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.names import (
    OPEN_EXECUTION,
    SEARCH_ATTRIBUTES,
    fitting,
    loops_queue,
    models_queue,
    run_id,
    short_model_name,
    tools_queue,
    without_pauses,
)


def test_queues_carry_installation_and_workspace():
    assert loops_queue("ab12") == "perdure-ab12-loops"
    assert models_queue("ab12") == "perdure-ab12-models"
    assert tools_queue("ab12", None) == "perdure-ab12-tools"
    assert tools_queue("ab12", "w9") == "perdure-ab12-w9-tools"


OLD = "invalid query: invalid expression: invalid ExecutionStatus value 'Paused'"


@pytest.mark.parametrize(
    ("query", "refusal", "older"),
    [
        (f"A = 'b' AND {OPEN_EXECUTION}", OLD, "A = 'b' AND ExecutionStatus = 'Running'"),
        (f"A = 'b' AND {OPEN_EXECUTION}", "unknown search attribute A", None),
        ("A = 'b'", OLD, None),
    ],
    ids=["a server from before pauses", "another reason", "another query"],
)
def test_an_old_server_is_asked_in_its_words(query, refusal, older):
    assert without_pauses(query, refusal) == older


@pytest.mark.parametrize(
    ("goal", "beginning"),
    [
        ("Write the page for a steel bottle", "refine-page-steel-bottle-"),
        ("Beat the résumé of Zoë Müller", "refine-beat-resume-zoe-"),
        ("?!", "refine-"),
        ("日本語", "refine-"),
    ],
)
def test_run_ids_can_be_read(goal, beginning):
    assert re.fullmatch(re.escape(beginning) + "[a-z2-7]{13}", run_id("refine", goal, "seed"))


def test_ids_of_many_seeds_never_meet():
    assert len({run_id("agent", "", str(seed)) for seed in range(20_000)}) == 20_000


@given(goal=st.text(max_size=400), seed=st.text(max_size=20))
def test_run_ids_are_plain_and_short(goal, seed):
    name = run_id("agent", goal, seed)
    assert re.fullmatch(r"[a-z0-9-]{1,120}", name)
    assert name != run_id("agent", goal, seed + "x")


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("scripted:sha256:" + "a" * 64, "scripted:sha256:aaaaaaaaaaaa…"),
        ("scripted:sha256:" + "a" * 64 + "#small", "scripted:sha256:aaaaaaaaaaaa…#small"),
    ],
    ids=["as it is", "cut", "with its label"],
)
def test_a_models_name_in_one_line(model, shown):
    assert short_model_name(model) == shown


def test_search_attributes_stay_within_what_a_server_offers():
    kinds = list(SEARCH_ATTRIBUTES.values())
    assert kinds.count("Keyword") <= 10 and kinds.count("Int") <= 3 and kinds.count("Double") <= 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ab", ["ab"]),
        ("abc", ["abc"]),
        ("a", ["ab", "abc"]),
        ("b", []),
        ("", []),
    ],
)
def test_an_id_is_named_whole_or_by_its_beginning_and_never_by_nothing(
    text: str, found: list[str]
) -> None:
    assert fitting(text, ("ab", "abc")) == found
    assert fitting("", ("ab",)) == []
