"""Open questions to people, and how to answer them from a shell."""

from datetime import datetime

from rich.console import RenderableType

from perdure.domain.run.answering import answer_command, shell_word
from perdure.domain.run.gates import Gate, expiry_choice
from perdure.gateway.types import OpenGate, OpenGates
from perdure.interfaces.cli.views.layout import DIM, WARN, line, stack
from perdure.interfaces.formatting import NAMED, ago, duration, one_line, plural


def how_to_answer(gate: Gate, run: str, choice: str | None = None) -> str:
    """The command that answers a gate, with the choice if it is known."""
    name = f"{run}:{gate.name}"
    if choice is not None:
        return f"perdure answer {shell_word(name)} {shell_word(choice)}"
    takes_note = gate.kind == "blocked" and gate.free_text
    return answer_command(
        name, gate.choices, beside=' --text "what it needs"' if takes_note else ""
    )


def gates_view(found: OpenGates, now: datetime) -> RenderableType:
    """All open questions, oldest first."""
    unread = [line((_unread(run, found.reasons.get(run)), WARN)) for run in found.unread[:NAMED]]
    if (more := len(found.unread) - NAMED) > 0:
        told = f"{plural(more, 'more run')} may wait too: `perdure list --status waiting`"
        unread.append(line((told, WARN)))
    if not found.gates and not unread:
        return line("Nothing waits for a person.")
    return stack(*(gate_view(item, now) for item in found.gates), *unread)


def _unread(run: str, why: str | None) -> str:
    if why is None:
        return f"{run} may wait too, but no worker answers for it: `perdure status {run}` says more"
    return f"{run} waits too, but what it asks is not known: {why}"


def gate_view(item: OpenGate, now: datetime) -> RenderableType:
    """One question with what it is about, and the command to answer it."""
    run, gate = item.run, item.gate
    facts = [gate.kind.replace("_", " "), f"opened {ago(gate.opened_at, now)}"]
    if item.path:
        facts.insert(0, " › ".join(item.path))
    if gate.deadline is not None:
        left = (gate.deadline - now).total_seconds()
        when = f"expires in {duration(left)}" if left > 0 else "expires now"
        facts.append(f"{when}, then {_expiry(gate)}")
    return stack(
        line((f"{run}:{gate.name}", "bold magenta"), (f"  {' · '.join(facts)}", DIM)),
        line((one_line(item.goal), DIM), indent=2),
        # Whole and line by line: what a person approves must not be cut or run together.
        *(line(row, indent=2) for row in gate.prompt.strip().splitlines()),
        line(("→ " + how_to_answer(gate, run), "cyan"), indent=2),
    )


def _expiry(gate: Gate) -> str:
    match expiry_choice(gate):
        case None:
            return "it goes on waiting"
        case "end":
            return "the run ends"
        case choice:
            return f"{choice} is taken"
