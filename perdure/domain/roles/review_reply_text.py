"""Reads a verdict from a reviewer's plain text; doubt is never an approval.

An approval must be a statement of one of a few forms by the reviewer about this round. Rejections
are recognised more freely, since a wrong one costs a round and a wrong approval the result.
"""

import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

from perdure.domain.foundation.plain_text import folded
from perdure.domain.roles import review_reply_words as words
from perdure.domain.roles.review_reply_words import CROSS, Clause, clauses

Reading = Literal["approved", "rejected", "unclear"]
_Sense = Literal["approves", "rejects", "doubts", "demands", "nothing"]


def read_review(text: str) -> Reading:
    """The verdict that a reviewer's whole text states.

    A rejection that stands makes it rejected, unless an approval follows it. What contradicts
    itself, hangs on a condition, asks for changes, or states nothing is unclear.
    """
    tally, is_announced = _Tally(), False
    for clause in clauses(text):
        sense = _sense(clause, follows_approval=tally.approves_last)
        # After "When you are done, say:" the next line is not the reviewer's own statement.
        tally = tally.after("nothing" if is_announced and sense == "approves" else sense)
        is_announced = clause.text.endswith(":") and bool(words.ATTRIBUTION.search(clause.text))
    return tally.reading


def read_words(text: str) -> Reading:
    """The verdict of a reply without structure, where words are all there is.

    They approve only when the whole reply is a plain approval; one with anything beside it is
    unclear, so the reviewer is asked for the structure.
    """
    read = read_review(text)
    if read == "rejected":
        return read
    is_plain = _is_plain_approval(text) and (read == "approved" or _is_yes_and_leave(text))
    return "approved" if is_plain else "unclear"


def _is_yes_and_leave(text: str) -> bool:
    """Whether the reply is one sentence such as "Yes, go on": it answers what was asked."""
    said = [clause.text for clause in clauses(text)]
    return len(said) == 1 and bool(words.YES_AND_LEAVE.match(said[0]))


def _is_plain_approval(text: str) -> bool:
    # A closed list of approvals: a list of what spoils an approval would always lack a case.
    if any(unicodedata.category(sign) in {"Mn", "Me"} for sign in folded(text)):
        return False  # struck-out letters approve nothing
    if words.has_unread(text):
        return False
    said = list(clauses(text))
    return all(clause.is_own and not clause.is_question for clause in said) and all(
        _is_plain(clause.text) for clause in said
    )


def _is_plain(said: str) -> bool:
    """Whether a clause is an approval and nothing else, or says nothing against one."""
    if words.YES_AND_LEAVE.match(said):
        return True
    bare = words.LEAVE.sub("", words.LABEL.sub("", said)).strip(" .!:")
    form = words.STATED.match(bare) or words.PASSIVE.match(bare) or words.FIRST_PERSON.match(bare)
    rest = bare if form is None else bare[form.end() :]
    return words.says_nothing_else(rest)


@dataclass(frozen=True, slots=True)
class _Tally:
    """What was said so far; `is_doubted` only counts doubts after the newest approval."""

    is_approved: bool = False
    is_rejected: bool = False
    is_doubted: bool = False
    demands: bool = False
    approves_last: bool = False

    def after(self, sense: _Sense) -> "_Tally":
        match sense:
            case "approves":
                return replace(self, is_approved=True, is_doubted=False, approves_last=True)
            case "rejects":
                # It takes back every approval before it.
                return _Tally(is_rejected=True)
            case "doubts":
                return replace(self, is_doubted=True, approves_last=False)
            case "demands":
                # No later approval clears it: what is approved beside an open demand is unclear.
                return replace(self, demands=True, approves_last=False)
            case "nothing":
                return replace(self, approves_last=False)

    @property
    def reading(self) -> Reading:
        if not self.is_approved:
            return "rejected" if self.is_rejected else "unclear"
        is_disputed = self.is_rejected or self.is_doubted or self.demands
        return "unclear" if is_disputed else "approved"


def _sense(clause: Clause, *, follows_approval: bool) -> _Sense:
    # First, so that “no changes needed” is not read as a demand for changes.
    said = words.BENIGN.sub(" ", clause.text)
    # “Approved or needs changes” repeats the question.
    if words.CHOICE.search(said):
        return "nothing"
    if clause.is_question or words.UNSURE.search(said):
        return "doubts" if words.ANY_WORD.search(said) else "nothing"
    if _rejects(said):
        return "rejects"
    # Such a clause goes on with the one before: “Approved. Provided that …” approves nothing yet.
    if follows_approval and words.TURN.match(said):
        return "doubts"
    if words.ANY_WORD.search(said):
        return _about_approval(clause, said)
    is_open = not words.OPTIONAL.search(said) and not words.SETTLED.search(said)
    return "demands" if is_open and words.DEMAND.search(said) else "nothing"


def _about_approval(clause: Clause, said: str) -> _Sense:
    """Whether a clause with a word of approval approves, doubts, or speaks of something else."""
    said = words.LEAVE.sub("", said)
    if words.NEGATION.search(said) or words.CONDITION.search(said):
        return "doubts"
    found = words.ANY_WORD.search(said)
    before = said[: found.start()] if found else said
    if not clause.is_own or words.ATTRIBUTION.search(before):
        return "nothing"
    return "approves" if _is_statement(words.LABEL.sub("", said)) else "nothing"


def _is_statement(bare: str) -> bool:
    """Whether words without their label have one of the forms in which a reviewer approves."""
    form = words.STATED.match(bare) or words.PASSIVE.match(bare) or words.FIRST_PERSON.search(bare)
    if form is None:
        return bool(words.CONCLUDED.match(bare))
    rest = bare[form.end() :].lstrip(" .!")
    return not rest.startswith(",") or bool(words.REASON.match(rest))


def _rejects(said: str) -> bool:
    is_settled = words.SETTLED.search(said) and not words.OPEN_AGAIN.search(said)
    bare = words.LABEL.sub("", said).removeprefix(CROSS).lstrip()
    if words.REJECTS_AT_ONCE.match(bare):
        return True
    if is_settled or words.BENIGN_NEED.search(said):
        return False
    return bool(words.REJECTS_A_PART.match(said) or words.REJECTS_IN_PROSE.search(said))
