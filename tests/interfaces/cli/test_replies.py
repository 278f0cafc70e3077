"""What is typed beneath a question: choices by number or whole name, words only where they fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.run.gates import APPROVE, Gate, refusal
from perdure.interfaces.cli.replies import (
    AskWords,
    Later,
    Reply,
    Said,
    Unclear,
    menu_of,
    read_reply,
)
from tests.interfaces.cli.samples import gate

CALL = gate()
ESCALATION = gate(
    kind="escalation", choices=("continue", "accept", "stop"), free_text=True, args_hash=None
)
BUDGET = gate(kind="budget", choices=("raise", "end"), args_hash=None)
OPEN = gate(kind="question", choices=(), free_text=True, args_hash=None)
PORTS = gate(kind="question", choices=("80", "443"), free_text=True, args_hash=None)
STARS = gate(kind="question", choices=("3", "2", "1", "none"), args_hash=None)
GATES = {
    "call": CALL,
    "escalation": ESCALATION,
    "budget": BUDGET,
    "open": OPEN,
    "ports": PORTS,
    "stars": STARS,
}
UNCLEAR = Unclear("")

CASES: list[tuple[str, str, Reply]] = [
    ("call", "a", Said("approve")),
    ("call", " Approve ", Said("approve")),
    ("call", "d", Said("deny")),
    ("call", "deny not this file", Said("deny", "not this file")),
    ("call", "t", AskWords("deny")),
    ("call", "t not this file", Said("deny", "not this file")),
    ("call", "a but only once", UNCLEAR),
    ("call", "approve!", UNCLEAR),
    ("call", "y", UNCLEAR),
    ("call", "1", UNCLEAR),
    ("call", "", Later()),
    ("escalation", "1", Said("continue")),
    ("escalation", "ACCEPT", Said("accept")),
    ("escalation", "1 name a colour", Said("continue", "name a colour")),
    ("escalation", "accept nothing of it", UNCLEAR),
    ("escalation", "4", UNCLEAR),
    ("escalation", "0", UNCLEAR),
    ("escalation", "-1", UNCLEAR),
    ("escalation", "²", UNCLEAR),
    ("budget", "2", Said("end")),
    ("budget", "1 to five dollars", UNCLEAR),
    ("budget", "   ", Later()),
    ("open", "Green tea.", Said(None, "Green tea.")),
    ("open", "1", Said(None, "1")),
    ("open", "green \ufffd", UNCLEAR),
    ("ports", "443", Said("443")),
    ("ports", "2", Said("443")),
    ("ports", "2 of them", Said(None, "2 of them")),
    ("ports", "8080", Said(None, "8080")),
    ("stars", "3", Said("3")),
    ("stars", "1", Said("1")),
    ("stars", "None", Said("none")),
    ("stars", "4", UNCLEAR),
]


@pytest.mark.parametrize(
    ("asked", "typed", "meant"), CASES, ids=[f"{a}: {t!r}" for a, t, _ in CASES]
)
def test_a_line_means(asked: str, typed: str, meant: Reply) -> None:
    read = read_reply(GATES[asked], typed)
    assert isinstance(read, Unclear) if meant is UNCLEAR else read == meant


@given(asked=st.sampled_from(list(GATES.values())), typed=st.text(max_size=30))
def test_what_is_read_is_taken(asked: Gate, typed: str) -> None:
    read = read_reply(asked, typed)
    if isinstance(read, Said):
        why = refusal(
            asked, named=asked.name, choice=read.choice, text=read.text, args_hash=asked.args_hash
        )
        assert why is None


@given(typed=st.text(max_size=20))
def test_nothing_but_a_plain_word_approves(typed: str) -> None:
    if read_reply(CALL, typed) == Said(APPROVE):
        assert typed.strip().casefold() in {"a", "approve"}


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("call", "[a]pprove  [d]eny  [t]ext: deny and say why  Enter: later"),
        ("escalation", "[1] continue  [2] accept  [3] stop  (words may follow the number)"),
        ("budget", "[1] raise  [2] end  Enter: later"),
        ("open", "your answer in words"),
        ("ports", "[1] 80  [2] 443  or your own words"),
        ("stars", "[3]  [2]  [1]  [none]  Enter: later"),
    ],
)
def test_the_menu_names_what_may_be_typed(asked: str, shown: str) -> None:
    assert shown in menu_of(GATES[asked])
