"""What the audit trail says of a verb: what it was about, never a person's or a model's words."""

from datetime import UTC, datetime

import pytest

from perdure.domain.run.audit import settled, verb_entry
from perdure.domain.run.messages import AddInput, Amend, Answer, AnyMessage, Pause, Stop

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECRET = "words of a person"
SAID: dict[str, tuple[AnyMessage, str]] = {
    "a choice": (Answer(gate="g1-7f3a", choice="approve"), "gate g1-7f3a: approve"),
    "a denial": (Answer(gate="g2", choice="deny", text=SECRET), "gate g2: deny"),
    "a text": (Answer(gate="g1", text=SECRET), f"gate g1: a text of {len(SECRET)} characters"),
    "a limit": (Amend(budget={"cost_usd": 3}), "budget.cost_usd = 3"),
    "guidance": (Amend(guidance=SECRET), "guidance"),
    "a rubric and a goal": (Amend(rubric=[SECRET], goal=SECRET), "rubric, goal"),
    "taken back": (Amend(remove=(1, 2)), "remove (1, 2)"),
    "a stop": (Stop(mode="now"), "now"),
    "a pause": (Pause(), ""),
    "an input": (AddInput(text=SECRET), ""),
}


@pytest.mark.parametrize(("message", "said"), SAID.values(), ids=SAID)
def test_an_entry_says_what_it_was_about(message: AnyMessage, said: str) -> None:
    entry = verb_entry("e1", "r1", message.model_copy(update={"by": "ann"}), at=NOW)
    assert (entry.about, entry.who, entry.outcome) == (said, "ann", "asked")
    assert SECRET not in entry.model_dump_json()


def test_an_end_counts_nothing_more_and_names_the_refusal() -> None:
    asked = verb_entry("e1", "r1", Answer(gate="g1", choice="approve"), at=NOW)
    refused = settled(asked, at=NOW, refused="the gate is closed")
    assert (refused.id, refused.outcome, refused.count) == ("e1", "refused", 0)
    assert refused.about == "gate g1: approve: the gate is closed"
    assert settled(asked, at=NOW).outcome == "allowed"
