"""What people say holds until it is taken back, within what prompts can carry."""

from datetime import UTC, datetime

import pytest

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.run import control as rules
from perdure.domain.run.control import Control
from perdure.domain.run.messages import AddInput, Amend
from perdure.domain.turns.guidance import SAID_KEPT, in_force

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _take(state: Control, *messages: AddInput | Amend) -> None:
    for message in messages:
        assert _refusal(state, message) is None
        rules.apply_verb(
            state, message, now=NOW, budget=Budget(limits=BudgetLimits()), wall_time=0.0
        )


def _refusal(state: Control, message: AddInput | Amend) -> str | None:
    return rules.verb_refusal(
        state, message, budget=Budget(limits=BudgetLimits()), wall_time=0.0, inputs_allowed=True
    )


def test_what_was_said_holds_and_keeps_its_number() -> None:
    state = Control()
    _take(state, AddInput(text="blue"), Amend(guidance="short"), AddInput(text="warm"))
    _take(state, Amend(remove=(2,)))
    state.inputs, state.guidance = [], []  # a prompt took them along
    assert [(one.number, one.text) for one in state.standing] == [(1, "blue"), (3, "warm")]
    assert in_force(state.standing, "for once", "warm") == ["blue", "warm", "for once"]
    _take(state, AddInput(text="new"))
    assert state.standing[-1].number == 4, "no number is given twice"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Amend(remove=(99,)), "nothing that was said has the number 99; there are: 1, 2"),
        (AddInput(text="one more"), "things said hold already"),
        (Amend(guidance="one more"), "things said hold already"),
        (Amend(guidance="instead", remove=(1,)), None),
    ],
    ids=["no such number", "too many", "too much guidance", "one for another"],
)
def test_what_holds_is_bounded(message: AddInput | Amend, why: str | None) -> None:
    state = Control()
    for number in range(SAID_KEPT):
        _take(state, AddInput(text=f"thing {number}"))
        state.inputs = []
    told = _refusal(state, message)
    assert told is None if why is None else why in (told or "")
