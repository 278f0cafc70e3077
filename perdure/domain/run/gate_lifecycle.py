"""Opening the gates of a run, and closing those that no person answered."""

from datetime import datetime

from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run import gates as gating
from perdure.domain.run.control import NOTES_KEPT, Control
from perdure.domain.run.gates import Gate, GateAnswer, GateKind


def open_gate(
    state: Control,
    *,
    kind: GateKind,
    prompt: str,
    now: datetime,
    choices: tuple[str, ...] | None = None,
    free_text: bool = False,
    deadline: datetime | None = None,
    on_expiry: str = gating.WAIT,
    args_hash: str | None = None,
    subject: str | None = None,
    details: BlobRef | None = None,
    scores: tuple[str, ...] = (),
    within_iteration: bool = False,
) -> Gate:
    """Open a gate under the next run-wide id."""
    state.gates_opened += 1
    gate = Gate(
        id=f"g{state.gates_opened}",
        kind=kind,
        prompt=gating.prompt_of(prompt),
        choices=gating.CHOICES[kind] if choices is None else choices,
        opened_at=now,
        free_text=free_text,
        deadline=deadline,
        on_expiry=on_expiry,
        args_hash=args_hash,
        subject=subject,
        details=details,
        scores=scores,
        within_iteration=within_iteration,
    )
    # Of answers that were read only the newest stay. One that the loop still waits for is never
    # dropped: the loop would wait for it for ever.
    waits = {known.id for known in state.open_gates}.union(state.awaited)
    done = [name for name in state.gates if name not in waits][-NOTES_KEPT:]
    kept = {name: known for name, known in state.gates.items() if name in waits or name in done}
    state.gates = {**kept, gate.id: gate}
    state.awaited = [*state.awaited, gate.id]
    return gate


def note_answer_read(state: Control, gate: str) -> None:
    """Note that the loop has read the answer of a gate."""
    state.awaited = [name for name in state.awaited if name != gate]


def close_expired(state: Control, *, now: datetime) -> tuple[Gate, ...]:
    """Answer gates whose deadline passed by their policy; those that `wait` stay open."""
    closed: list[Gate] = []
    for gate in state.open_gates:
        choice = gating.expiry_choice(gate)
        if gating.is_expired(gate, now) and choice is not None:
            answer = GateAnswer(choice=choice, text=None, by="deadline", at=now, expired=True)
            closed.append(gate.model_copy(update={"answer": answer}))
    for gate in closed:
        state.gates = {**state.gates, gate.id: gate}
    return tuple(closed)


def close_settled(state: Control, gate: str, *, choice: str, by: str, now: datetime) -> Gate | None:
    """Answer a gate whose question is settled; None if it has its answer already."""
    asked = state.gates.get(gate)
    if asked is None or not asked.open:
        return None
    answer = GateAnswer(choice=choice, text=None, by=by, at=now)
    state.gates = {**state.gates, gate: asked.model_copy(update={"answer": answer})}
    return state.gates[gate]
