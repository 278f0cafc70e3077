"""The checks of a completion in order, what they name, and the breaker behind them."""

import pytest
from pydantic import JsonValue

from perdure.domain.delegation.completion import (
    Breaker,
    CompletionFacts,
    FileFact,
    Rejection,
    completion_repair,
    completion_step,
    everything_wrong,
    expected_files,
    facts_still_wanted,
)
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.deliverables import final_score, quality
from perdure.domain.delegation.spec import DelegationSettings

DONE = Complete(decision="complete", final_result="All is read.", deliverables=("a.md",))
STRICT = DelegationSettings(
    output_schema={"type": "object"},
    success_criteria=("two sources",),
    deliverables=("b.md",),
    smoke_test=("pytest",),
)
FINE = FileFact(path="a.md", bytes=10)
PASSED = CompletionFacts(contract=(), critique=0.6, files=(FINE,), unmet=(), smoke="")


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({}, None),
        ({"contract": ("result: found text",)}, "output_contract"),
        ({"critique": 0.59}, "critique"),
        ({"critique": None}, None),
        ({"files": (FileFact(path="a.md", exists=False),)}, "deliverables"),
        ({"files": (FileFact(path="a.md", bytes=0),)}, "deliverables"),
        ({"files": (FileFact(path="a.md", bytes=5, placeholders=("TODO",)),)}, "placeholders"),
        ({"files": (FileFact(path="a.md", bytes=5, problem="line 3"),)}, "parse"),
        ({"unmet": ("two sources",)}, "success_criteria"),
        ({"smoke": "exit code 1"}, "smoke"),
        (
            {
                "contract": ("x",),
                "critique": 0.1,
                "files": (FileFact(path="a.md", exists=False),),
                "unmet": ("y",),
                "smoke": "z",
            },
            "output_contract",
        ),
        ({"critique": 0.1, "smoke": "z"}, "critique"),
        (
            {
                "files": (
                    FileFact(path="a", bytes=1, problem="p"),
                    FileFact(path="b", bytes=1, placeholders=("TODO",)),
                    FileFact(path="c", exists=False),
                )
            },
            "deliverables",
        ),
    ],
)
def test_the_first_check_that_fails_speaks(changed: dict[str, object], check: str | None) -> None:
    found = completion_step(DONE, PASSED.model_copy(update=changed), STRICT)
    assert (found.check if isinstance(found, Rejection) else found) == check


def test_facts_are_asked_for_only_when_their_check_comes() -> None:
    facts = CompletionFacts(critique=0.9)
    asked = []
    for name, value in (("contract", ()), ("files", (FINE,)), ("unmet", ()), ("smoke", "")):
        asked.append(completion_step(DONE, facts, STRICT))
        facts = facts.model_copy(update={name: value})
    assert asked == ["contract", "files", "criteria", "smoke"]
    assert completion_step(DONE, facts, STRICT) is None


def test_a_task_without_demands_needs_a_result_alone() -> None:
    plain = DelegationSettings()
    said = Complete(decision="complete", final_result="x")
    assert completion_step(said, CompletionFacts(), plain) is None
    blanks: list[JsonValue] = [None, "", " ", [], {"a": ""}, "n/a"]
    for nothing in blanks:
        empty = Complete(decision="complete", final_result=nothing)
        found = completion_step(empty, CompletionFacts(), plain)
        assert isinstance(found, Rejection) and found.check == "deliverables"


def test_placeholders_in_the_result_itself_count() -> None:
    said = Complete(decision="complete", final_result={"text": ["fine", "TODO: the end"]})
    found = completion_step(said, CompletionFacts(), DelegationSettings())
    assert isinstance(found, Rejection) and found.check == "placeholders"


def test_a_critique_that_is_switched_off_refuses_nothing() -> None:
    off = DelegationSettings.model_validate({"critique": {"enabled": False}})
    assert completion_step(DONE, PASSED.model_copy(update={"critique": 0.1}), off) is None


def test_a_poor_mean_names_the_work_and_is_the_same_refusal_without_it() -> None:
    facts = PASSED.model_copy(update={"critique": 0.4})
    plain = completion_step(DONE, facts, STRICT)
    named = completion_step(DONE, facts.model_copy(update={"poor": ("s2 (0.20)",)}), STRICT)
    assert isinstance(plain, Rejection) and isinstance(named, Rejection)
    assert named.text.endswith("wanted 0.6; below that: s2 (0.20).")
    assert named.hash == plain.hash


def test_files_of_the_task_come_first_each_once() -> None:
    said = Complete(decision="complete", final_result="x", deliverables=("a.md", "b.md"))
    assert expected_files(said, STRICT) == ("b.md", "a.md")


A = Rejection(check="deliverables", named=("a is missing",))
B = Rejection(check="parse", named=("b: line 3",))
A_OTHER = Rejection(check="deliverables", named=("c is missing",))


@pytest.mark.parametrize(
    ("script", "cap", "tripped_at"),
    [
        ([A, A], 2, 2),
        ([A, B], 2, None),
        ([A, B, A], 2, None),
        ([A, B, A, B], 2, 4),
        ([A, A_OTHER], 2, None),
        ([A, "progress", A], 2, None),
        ([A, "progress", A, A], 2, 3),
        ([A, B, "progress", A, B, A], 2, None),
        ([A, B, "progress", A, B, A, B], 2, 6),
        ([A] * 9, 0, None),
        ([A], 1, 1),
        ([A, A], 3, None),
        ([A, A, A], 3, 3),
        ([A, B, A, B, A, B], 3, 6),
    ],
    ids=[
        "the same twice",
        "two others",
        "not in a row",
        "twice the cap",
        "another payload",
        "the same after useful work",
        "the same twice after useful work",
        "progress counts anew",
        "twice the cap after progress",
        "switched off",
        "cap of one",
        "below the cap",
        "cap of three",
        "twice three",
    ],
)
def test_the_breaker(script: list[Rejection | str], cap: int, tripped_at: int | None) -> None:
    breaker, count, found = Breaker(), 0, None
    for item in script:
        if isinstance(item, str):
            breaker = breaker.after_progress()
            continue
        count += 1
        breaker, tripped = breaker.after(item, cap=cap)
        found = count if tripped and found is None else found
    assert found == tripped_at


def test_the_order_of_what_is_named_makes_no_other_rejection() -> None:
    one = Rejection(check="parse", named=("a", "b"))
    assert one.hash == Rejection(check="parse", named=("b", "a")).hash
    assert one.hash != Rejection(check="smoke", named=("a", "b")).hash


def test_the_repair_names_everything_that_is_wrong() -> None:
    facts = CompletionFacts(
        contract=("total: found nothing",),
        files=(
            FileFact(path="a", exists=False),
            FileFact(path="b", bytes=0),
            FileFact(path="c", bytes=9, placeholders=("TODO",), problem="line 3"),
        ),
    )
    wrong = everything_wrong(Complete(decision="complete", final_result="x"), facts)
    assert wrong == (
        "total: found nothing",
        "a is missing",
        "b is empty",
        "c holds placeholders: TODO",
        "c: line 3",
    )
    repair = completion_repair(wrong)
    assert all(item in repair.instructions for item in wrong)
    assert (repair.priority, repair.sub_manager) == ("high", False)


@pytest.mark.parametrize(
    ("score", "wanted"),
    [
        (None, "accept"),
        (1.0, "accept"),
        (0.8, "accept"),
        (0.1 + 0.7, "accept"),
        (0.7999, "accept_with_warning"),
        (0.6, "accept_with_warning"),
        (0.5999, "repair"),
        (0.4, "repair"),
        (0.3999, "fail"),
        (0.0, "fail"),
    ],
)
def test_the_policy_by_score(score: float | None, wanted: str) -> None:
    assert quality(score, DelegationSettings().evaluation) == wanted


@pytest.mark.parametrize(
    ("rubric", "critique", "wanted"), [(0.3, 0.9, 0.3), (None, 0.9, 0.9), (None, None, None)]
)
def test_a_rubric_outranks_the_reviewers(
    rubric: float | None, critique: float | None, wanted: float | None
) -> None:
    assert final_score(rubric, critique) == wanted


@pytest.mark.parametrize(
    ("facts", "settings", "wanted"),
    [
        (CompletionFacts(), STRICT, ("contract", "files")),
        (CompletionFacts(contract=("x",)), STRICT, ("files",)),
        (CompletionFacts(contract=(), files=()), STRICT, ()),
        (CompletionFacts(), DelegationSettings(), ("files",)),
        (PASSED, STRICT, ()),
    ],
)
def test_what_a_repair_must_still_look_at(
    facts: CompletionFacts, settings: DelegationSettings, wanted: tuple[str, ...]
) -> None:
    assert facts_still_wanted(DONE, facts, settings) == wanted


def test_without_files_and_schema_there_is_nothing_more_to_look_at() -> None:
    bare = Complete(decision="complete", final_result="All is read.")
    assert facts_still_wanted(bare, CompletionFacts(), DelegationSettings()) == ()
