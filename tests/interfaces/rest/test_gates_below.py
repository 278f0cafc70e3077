"""Questions of runs below, answered at the run above by `RUN:g1`."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.errors import NotFound
from perdure.domain.installation.access import ApiToken
from perdure.domain.run.child_questions import question_of
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer, Receipt
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.interfaces.rest.callers import Caller
from perdure.interfaces.rest.gates import answer, get_gate
from perdure.interfaces.rest.schemas import AnswerBody
from perdure.interfaces.rest.settings import ApiRules

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOP, BELOW = "delegation-a-1", "delegation-a-1.w1"
OWN = Gate(id="g1", kind="escalation", prompt="own", choices=("continue", "stop"), opened_at=NOW)
APPROVAL = Gate(
    id="g1", kind="tool_approval", prompt="own", choices=("approve", "deny"), opened_at=NOW,
    args_hash="bf35" + "0" * 60,
)  # fmt: skip
ASKED = Gate(id="g1", kind="question", prompt="below", choices=("red", "stop"), opened_at=NOW)


@dataclass
class Gateway:
    """A run with a question of its own, and one below it with another of the same number."""

    own: tuple[Gate, ...] = (OWN,)
    below: tuple[Gate, ...] = (ASKED,)
    sent: list[tuple[str, Answer]] = field(default_factory=list)

    async def status(self, run: str) -> RunStatus:
        asked = tuple(question_of(BELOW, gate) for gate in self.below)
        return RunStatus(
            id=run,
            kind="delegation",
            goal="x",
            lifecycle="waiting",
            phase="working",
            budget=BudgetStatus(limits=BudgetLimits()),
            gates=self.own if run == TOP else self.below,
            questions=asked if run == TOP else (),
        )

    async def verb(self, run: str, message: Answer) -> Receipt:
        self.sent.append((run, message))
        return Receipt(verb="answer", lifecycle="running")


def site(gateway: Gateway) -> Any:
    async def row(run: str) -> str:
        return run

    services = SimpleNamespace(gateway=gateway, records=SimpleNamespace(run=row), blobs=None)
    return SimpleNamespace(services=services, rules=ApiRules())


def caller() -> Caller:
    return Caller(ApiToken(id="a1", name="me", scopes=("answer",), digest="0" * 64, created_at=NOW))


async def test_a_named_run_below_is_meant_though_the_run_asks_by_the_same_number() -> None:
    gateway = Gateway()
    shown = await get_gate(site(gateway), caller(), TOP, f"{BELOW}:g1")
    assert shown.prompt == "below"
    for name, run in ((f"{BELOW}:g1", BELOW), ("g1", TOP), (f"{TOP}:g1", TOP)):
        await answer(site(gateway), caller(), TOP, name, AnswerBody(choice="stop"))
        assert (gateway.sent[-1][0], gateway.sent[-1][1].gate) == (run, "g1")


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (APPROVAL, "g1"), (APPROVAL, "g1-bf35"), (APPROVAL, "g1-bf3500"),
        (APPROVAL, f"{TOP}:g1-bf35"), (OWN, "g1"),
    ],
)  # fmt: skip
async def test_a_question_is_shown_by_each_of_its_names(asked: Gate, name: str) -> None:
    assert (await get_gate(site(Gateway(own=(asked,))), caller(), TOP, name)) == asked


@pytest.mark.parametrize(
    ("asked", "name"), [(APPROVAL, "g1-7f3a"), (APPROVAL, f"{TOP}:g1-7f3a"), (OWN, "g1-bf35")]
)
async def test_a_question_is_not_shown_by_the_name_of_one_before_a_reset(
    asked: Gate, name: str
) -> None:
    with pytest.raises(NotFound, match="has no gate"):
        await get_gate(site(Gateway(own=(asked,), below=())), caller(), TOP, name)


async def test_an_answer_to_a_run_below_that_is_sent_again_is_the_same_message() -> None:
    gateway, body = Gateway(own=()), AnswerBody(choice="red")
    await answer(site(gateway), caller(), TOP, f"{BELOW}:g1", body, key="once")
    gateway.below = ()  # it was answered
    await answer(site(gateway), caller(), TOP, f"{BELOW}:g1", body, key="once")
    first, second = gateway.sent
    assert first == second
    assert first[0] == BELOW


async def test_a_run_that_is_not_below_is_not_named_so() -> None:
    gateway = Gateway(own=(), below=())
    await answer(site(gateway), caller(), TOP, "agent-other:g1", AnswerBody(choice="red"))
    assert gateway.sent[0][0] == TOP
