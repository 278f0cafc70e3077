"""The same work is not done twice when it went badly, whoever is asked to do it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.repeated_work import (
    PastWork,
    Surroundings,
    logical_worker,
    repeat_refusal,
    repeat_warning,
    signature,
)
from perdure.domain.delegation.skills import KnownSkill, SkillCatalog


def work(
    instructions: str = "Count the words.", worker: str = "w1", **inputs: JsonValue
) -> Envelope:
    return Envelope(worker=worker, instructions=instructions, inputs=inputs)


LONG = "word " * 5_000
SAME = signature([work()])


@pytest.mark.parametrize(
    ("envelopes", "same"),
    [
        ([work(worker="other")], True),
        ([work("  count the\n WORDS. ")], True),
        ([work("Count the letters.")], False),
        ([work(file="a.txt")], False),
        ([work(), work("More.")], False),
    ],
    ids=["another worker", "spaces and case", "other words", "other inputs", "more of it"],
)
def test_a_signature_covers_what_workers_are_told(envelopes: list[Envelope], same: bool) -> None:
    assert (signature(envelopes) == SAME) is same


@pytest.mark.parametrize(
    "changed",
    [
        {"inherit": ("facts",)},
        {"skills": ("count-words",)},
        {"tools": ("text.count",)},
        {"model": "another"},
        {"acceptance": "It is exact."},
        {"expected": "a number"},
        {"temperature": 0.9},
        {"result_schema": {"type": "integer"}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_whatever_a_worker_sees_makes_other_work(changed: dict[str, object]) -> None:
    assert signature([work().model_copy(update=changed)]) != SAME


def known(**texts: str) -> SkillCatalog:
    return SkillCatalog(skills={n: KnownSkill(ref=ref, line=n) for n, ref in texts.items()})


BEFORE = Surroundings(
    said=("No glass.",),
    tools={"text.count": "sha256:1"},
    skills=known(counting="sha256:1", other="sha256:1"),
    inputs={"facts": {"ref": "sha256:1"}, "more": "x"},
    pitfalls=("missing: the sum",),
)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"said": ()}, False),
        ({"said": ("No glass.", "Be brief.")}, False),
        ({"tools": {}}, False),
        ({"tools": {"text.count": "sha256:2"}}, False),
        ({"tools": {"text.count": "sha256:1", "text.sum": "sha256:1"}}, False),
        ({"skills": known(counting="sha256:2", other="sha256:1")}, False),
        ({"skills": known(counting="sha256:1", other="sha256:2")}, True),
        ({"inputs": {"facts": {"ref": "sha256:2"}, "more": "x"}}, False),
        ({"inputs": {"facts": {"ref": "sha256:1"}, "more": "y"}}, True),
        ({"pitfalls": ("missing: the source",)}, False),
    ],
    ids=[
        "nothing", "guidance gone", "more guidance", "a tool gone", "a tool changed",
        "a tool more", "its skill changed", "another skill changed", "what it inherits",
        "what it does not inherit", "a pitfall",
    ],
)  # fmt: skip
def test_what_is_shown_beside_the_work_makes_other_work(
    changed: dict[str, object], same: bool
) -> None:
    order = [work().model_copy(update={"skills": ("counting",), "inherit": ("facts",)})]
    past = PastWork().after(order, iteration=1, confidence=0.1, beside=BEFORE)
    after = BEFORE.model_copy(update=changed)
    assert (repeat_refusal(past, order, after) is not None) is same


def test_work_without_anything_beside_it_keeps_its_signature() -> None:
    order = [work().model_copy(update={"skills": ("unknown",), "inherit": ("unknown",)})]
    beside = Surroundings(inputs={"facts": 1}, skills=known(counting="sha256:1"))
    assert signature(order, beside) == signature(order)


def test_who_does_it_and_for_how_much_makes_no_other_work() -> None:
    same = work().model_copy(update={"budget_share": 0.5, "priority": "high", "subtask": "s1"})
    assert signature([same]) == SAME


def test_the_end_of_long_instructions_counts() -> None:
    assert signature([work(f"{LONG} one")]) != signature([work(f"{LONG} two")])


def test_the_order_of_workers_and_inputs_does_not_count() -> None:
    one, two = work("One.", a=1, b=2), work("Two.")
    other = Envelope(worker="x", instructions="One.", inputs={"b": 2, "a": 1})
    assert signature([one, two]) == signature([two, other])


@pytest.mark.parametrize(
    ("confidence", "said"),
    [(0.2, "confidence 0.2"), (0.49, "confidence 0.49"), (None, "it failed"), (0.5, None)],
)
def test_poor_work_is_refused_with_its_iteration(
    confidence: float | None, said: str | None
) -> None:
    past = PastWork().after([work()], iteration=3, confidence=confidence)
    refusal = repeat_refusal(past, [work(worker="w1_retry2")])
    assert (refusal is None) is (said is None)
    assert said is None or (refusal is not None and said in refusal and "iteration 3" in refusal)
    assert repeat_refusal(past, [work("Something else.")]) is None


def test_work_that_went_well_the_second_time_is_forgiven() -> None:
    past = PastWork().after([work()], iteration=1, confidence=0.1)
    past = past.after([work()], iteration=2, confidence=0.9)
    assert repeat_refusal(past, [work()]) is None


@pytest.mark.parametrize(
    ("worker", "logical"),
    [
        ("parser", "parser"),
        ("parser_repair", "parser"),
        ("parser_retry3", "parser"),
        ("parser_v2", "parser"),
        ("parser_strict", "parser"),
        ("parser_final", "parser"),
        ("parser_run12", "parser"),
        ("parser_subtask_4", "parser"),
        ("parser_v2_retry1_final", "parser"),
        ("parser_subtask_1_repair_v3", "parser"),
        ("parser_V2", "parser"),
        ("parser_subtask", "parser_subtask"),
        ("parser_v", "parser_v"),
        ("final_parser", "final_parser"),
        ("_final", "_final"),
        ("_v2_final", "_v2"),
        ("v2", "v2"),
    ],
)
def test_suffixes_of_tries_are_stripped_never_to_nothing(worker: str, logical: str) -> None:
    assert logical_worker(worker) == logical


@given(st.text(min_size=1, max_size=30))
def test_a_logical_id_is_never_empty_and_stays_what_it_is(name: str) -> None:
    found = logical_worker(name)
    assert found
    assert logical_worker(found) == found


@pytest.mark.parametrize(
    ("rounds", "warned"),
    [
        (["a", "a"], False),
        (["a", "a_retry1", "a_final"], True),
        (["a", "b", "a"], False),
        (["b", "a", "a", "a"], True),
        (["a", "a", "a", "b"], False),
    ],
    ids=["twice", "three tries", "with a pause", "later", "over"],
)
def test_the_same_worker_three_times_in_a_row_warns(rounds: list[str], warned: bool) -> None:
    past = PastWork()
    for number, worker in enumerate(rounds):
        past = past.after([work(str(number), worker)], iteration=number, confidence=0.9)
    found = repeat_warning(past)
    assert (found is not None) is warned
    assert found is None or "row: a" in found


def test_what_is_remembered_is_bounded() -> None:
    past = PastWork()
    for number in range(1_000):
        past = past.after([work(str(number))], iteration=number, confidence=None)
    assert len(past.model_dump_json()) < 64 * 1024
