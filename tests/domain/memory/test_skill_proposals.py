"""Skills of runs wait until their run was accepted and a person approved them."""

from datetime import timedelta

import pytest
from remembering import START, skill

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.memory.deduplication import VERSIONS_KEPT, merged
from perdure.domain.memory.entries import Origin, Skill, may_enter
from perdure.domain.memory.skills import approved, one_proposal, proposal, proposals

TEXT = "# Skill: Counting\n\n## Purpose\nTo count words.\n"


def proposed(name: str = "counting", run: str = "delegation-a", text: str = TEXT) -> Skill:
    return proposal(name, text, run=run, category="code", now=START)


def test_a_proposal_enters_no_run_and_replaces_no_skill() -> None:
    found = proposed()
    assert not may_enter(found)
    assert (found.name, found.purpose) == ("counting@delegation-a", "To count words.")
    assert found.id != proposed(run="delegation-b").id


def test_an_approved_skill_of_an_accepted_run_enters() -> None:
    found = approved(proposed(), outcome="accepted", by="ada", now=START)
    assert may_enter(found)
    assert (found.name, found.id, found.version) == ("counting", "skill-counting", 1)
    assert found.source == "run delegation-a, approved by ada"
    assert found.origins == (Origin(run="delegation-a", outcome="accepted"),)
    assert approved(proposed(), outcome="accepted", by="ada", now=START, name="My way").name == (
        "my-way"
    )


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("best_effort", "ended best_effort"), ("failed", "ended failed"), (None, "has not ended")],
)
def test_only_what_accepted_runs_wrote_is_approved(outcome: str | None, said: str) -> None:
    with pytest.raises(NotAllowed, match=said):
        approved(proposed(), outcome=outcome, by="ada", now=START)


def test_what_waits_for_nothing_is_not_approved() -> None:
    with pytest.raises(NotAllowed, match="waits for no approval"):
        approved(skill("plain"), outcome="accepted", by="ada", now=START)
    with pytest.raises(InvalidInput, match="neither letters nor digits"):
        approved(proposed(), outcome="accepted", by="ada", now=START, name="!!")


def test_an_approved_skill_becomes_the_next_version_and_keeps_the_one_before() -> None:
    first = approved(proposed(), outcome="accepted", by="ada", now=START)
    second = approved(
        proposed(run="delegation-b", text="# Counting\nBetter."),
        outcome="accepted",
        by="ada",
        now=START + timedelta(days=1),
    )
    kept = merged(first, second)
    assert isinstance(kept, Skill)
    assert (kept.version, kept.text) == (2, "# Counting\nBetter.")
    assert [(old.version, old.text) for old in kept.earlier] == [(1, TEXT.strip())]


def test_a_skill_of_a_person_is_not_replaced() -> None:
    own = skill("counting").model_copy(update={"origins": ()})
    with pytest.raises(NotAllowed, match="written by a person"):
        merged(own, approved(proposed(), outcome="accepted", by="ada", now=START))


def test_so_many_versions_are_kept() -> None:
    kept = proposed()
    for number in range(10):
        found = merged(kept, proposed(text=f"{TEXT}{number}"))
        assert isinstance(found, Skill)
        kept = found
    assert kept.version == 11
    assert [old.version for old in kept.earlier] == list(range(11 - VERSIONS_KEPT, 11))
    assert merged(kept, kept) == kept


def test_a_proposal_is_found_by_its_skill_if_only_one_waits() -> None:
    waiting = proposals([proposed(), proposed("mixing"), skill("plain")])
    assert len(waiting) == 2
    assert one_proposal("COUNTING", waiting).name == "counting@delegation-a"
    assert proposals(waiting, run="other") == ()
    with pytest.raises(NotFound, match="Proposed: counting@delegation-a, mixing@delegation-a"):
        one_proposal("baking", waiting)
    both = (*waiting, proposed(run="delegation-b"))
    with pytest.raises(InvalidInput, match="Several runs"):
        one_proposal("counting", both)
    assert one_proposal("counting@delegation-b", both).proposed_by == "delegation-b"
