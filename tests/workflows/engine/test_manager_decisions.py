"""What a manager has read when it decides, with a model that plays its replies."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import LimitReached
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.messages import ManageReport
from perdure.domain.delegation.progress import ManagerProgress
from perdure.domain.delegation.state import CurrentIteration
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.activity_messages import ModelCallReport, ShelveReport, ShelveRequest
from perdure.domain.run.control import Control
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.delegation_parts import manager_decisions
from perdure.workflows.delegation_parts.manager_decisions import ManagerDecisions
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine

LONG = PendingInput(text="", by="ada", ref=BlobRef(hash="sha256:long"))
SPENT = LimitReached(dimension="cost", spent=Decimal(1), limit=Decimal(1))
CALL = ModelCallReport(status="replied")
DECIDED = ManageReport(call=CALL, decision=Complete(decision="complete", final_result="r"))
UNREADABLE = ManageReport(call=CALL, problems=("no decision",))


def said(text: str) -> PendingInput:
    return PendingInput(text=text, by="ada")


class Manager:
    """A manager whose calls end so, one after the other; `during` happens in the first."""

    def __init__(self, *ends: object, during: Callable[[Control], None]) -> None:
        self.ends = list(ends)
        self.during = during
        self.control = Control(inputs=[said("first")])
        self.state = SimpleNamespace(
            control=self.control,
            course=ManagerProgress(),
            inputs={},
            shown={},
            unwritten=[],
            turnover=CurrentIteration(record=IterationRecord(index=1)),
        )
        self.told: list[str] = []
        self.lost: dict[str, str] = {}

    async def call_model(self, _: object) -> object:
        if len(self.ends) > 1 or isinstance(self.ends[0], ManageReport):
            self.during(self.control)
            self.during = lambda _: None
        return self.ends.pop(0)

    async def ask_for_budget(self, _: object) -> bool:
        return True

    async def shelve(self, _: object, request: ShelveRequest, **__: object) -> ShelveReport:
        values = {name: one for name, one in request.values.items() if name not in self.lost}
        return ShelveReport(values=values, shown=dict.fromkeys(values, "…"), lost=self.lost)

    async def decide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = SimpleNamespace(
            state=self.state,
            site=None,
            set_phase=lambda _: None,
            sync_visibility=lambda: None,
            inform=self.told.append,
        )
        run.take_inputs = partial(DelegationRun.take_inputs, cast("DelegationRun", run))
        engine = SimpleNamespace(limits=self, fitting=None, models=self)
        asking = ManagerDecisions(cast("DelegationRun", run), cast("Engine", engine))
        options = SimpleNamespace(store_step=lambda *_, **__: {})
        monkeypatch.setattr(workflow, "patched", lambda _: True)
        monkeypatch.setattr(workflow, "execute_activity_method", self.shelve)
        monkeypatch.setattr(manager_decisions, "activity_options", options)
        monkeypatch.setattr(asking, "_call_spec", lambda _: None)
        await asking.manage()


@pytest.mark.parametrize("first", [UNREADABLE, SPENT], ids=["unreadable", "a person gave money"])
async def test_a_long_text_that_comes_before_the_manager_is_asked_again_is_an_input(
    first: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(control: Control) -> None:
        control.inputs = [*control.inputs, LONG]

    manager = Manager(first, DECIDED, during=add)
    await manager.decide(monkeypatch)
    assert manager.state.inputs == {"added 1": {"ref": "sha256:long"}}
    assert "added 1" in manager.told[-1]
    assert manager.control.inputs == []


async def test_what_comes_during_a_call_is_unread_though_something_was_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change(control: Control) -> None:
        control.inputs = [said("second")]

    manager = Manager(DECIDED, during=change)
    await manager.decide(monkeypatch)
    assert manager.control.inputs == [said("second")]


async def test_of_texts_that_were_added_the_lost_ones_are_refused_and_the_others_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = Manager(DECIDED, during=lambda _: None)
    other = LONG.model_copy(update={"ref": BlobRef(hash="sha256:other")})
    manager.control.inputs = [LONG, other]
    manager.lost = {"added 1": "it is not in this store"}
    await manager.decide(monkeypatch)
    assert manager.state.inputs == {"added 2": {"ref": "sha256:other"}}
    assert manager.told == [
        "A text that people added could not be read: it is not in this store",
        "People added a text, which holds like the task: input added 2.",
    ]
    assert manager.control.refused_signals == ["add_input: it is not in this store"]
    assert manager.control.inputs == []
