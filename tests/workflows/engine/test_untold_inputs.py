"""What people said to a draft whose calls failed is told to the next draft."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.foundation.refs import BlobRef
from perdure.domain.refine.resume import first_state
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import PendingInput, Said
from perdure.domain.turns.turn import TurnState
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.refine_parts.drafting import Drafting
from perdure.workflows.refine_parts.policies import StrategyModels
from perdure.workflows.refine_parts.run import RefineRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = RefineSpec.model_validate(
    {
        "kind": "refine",
        "goal": "Name trees.",
        "models": {"executor": "scripted:m"},
        "rubric": [{"name": "oak", "evaluator": {"check": "contains", "all": ["oak"]}}],
    }
)
LONG = PendingInput(text="", by="ada", ref=BlobRef(hash="b" * 64))
SHORT = PendingInput(text="Name elms too.", by="ada")
NEWER = PendingInput(text="Name oaks too.", by="bob")


async def test_the_next_draft_is_told_what_the_last_one_was_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "now", lambda: NOW)
    state = first_state(SPEC, at=NOW)
    state.turn = TurnState(unread=[LONG, SHORT])
    state.control.inputs = [NEWER]
    state.control.standing = [
        Said(number=number, text=one.text, by=one.by) for number, one in enumerate((SHORT, NEWER))
    ]
    run = SimpleNamespace(
        state=state,
        spec=SPEC,
        record_event=lambda *_, **__: None,
        set_phase=lambda _: None,
        sync_visibility=lambda: None,
    )
    part = object.__new__(Drafting)
    part.run = cast("RefineRun", run)
    part.selection = cast("StrategyModels", SimpleNamespace(strategy=None))
    part._begin_draft()
    turns = object.__new__(AgentTurns)
    turns.run = cast("RefineRun", run)
    await turns._heard(state.turn)
    told = [entry for entry in state.turn.entries if isinstance(entry, SayEntry)]
    assert told == [SayEntry.of(given) for given in (LONG, SHORT, NEWER)]
    assert state.turn.unread == [LONG, SHORT, NEWER]
