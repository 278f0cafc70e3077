"""Reads what a person types below a question, and finds the answer that it means."""

from dataclasses import dataclass

from perdure.domain.run.answering import choice_line
from perdure.domain.run.gates import APPROVE, DENY, Gate

LATER = "Enter: later"
APPROVAL_MENU = f"[a]pprove  [d]eny  [t]ext: deny and say why  {LATER}"


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: a choice, a text, or both."""

    choice: str | None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """Leave the question open for now."""


@dataclass(frozen=True, slots=True)
class AskWords:
    """A choice that needs a text, which is typed on the next line."""

    choice: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """Not an answer to this question; `why` says what would be."""

    why: str


Reply = Said | Later | AskWords | Unclear


def takes_text(gate: Gate) -> bool:
    """Whether a text alone may answer.

    It may not for an approval: a mistyped `approve` would count as a denial with a reason.
    """
    return not gate.choices or (gate.free_text and gate.kind in {"question", "review"})


def menu_of(gate: Gate) -> str:
    """The possible answers, on one line."""
    if gate.kind == "tool_approval":
        return APPROVAL_MENU
    if not gate.choices:
        return f"your answer in words  {LATER}"
    keys = _keys(gate)
    listed = "  ".join(
        f"[{choice_line(key)}]" if key == choice else f"[{key}] {choice_line(choice)}"
        for key, choice in zip(keys, gate.choices, strict=True)
    )
    if takes_text(gate):
        return f"{listed}  or your own words  {LATER}"
    beside = "  (words may follow the number)" if gate.free_text else ""
    return f"{listed}{beside}  {LATER}"


def read_reply(gate: Gate, typed: str) -> Reply:
    """Read an answer.

    A choice must be its number or its exact name. Prefixes and near matches do not count, so that
    no sentence that happens to begin with a choice becomes a consent.
    """
    line = typed.strip()
    if not line:
        return Later()
    # What was typed is not known, and a changed answer is another answer.
    if "\ufffd" in line:
        return Unclear("That is not UTF-8 text.")
    if gate.kind == "tool_approval":
        return _of_approval(line)
    named = next((one for one in gate.choices if one.casefold() == line.casefold()), None)
    if named is not None:
        return Said(named)
    return _by_number(gate, line)


def _of_approval(line: str) -> Reply:
    key, _, words = line.partition(" ")
    match key.casefold():
        # With words it is no approval: nobody knows whether they are a condition.
        case "a" | "approve" if not words:
            return Said(APPROVE)
        case "d" | "deny":
            return Said(DENY, words.strip() or None)
        case "t" | "text":
            return Said(DENY, words.strip()) if words.strip() else AskWords(DENY)
        case _:
            return Unclear("Type a, d or t; words alone neither approve nor deny.")


def _keys(gate: Gate) -> tuple[str, ...]:
    """What is typed for each choice: its number, or itself where one is the number of another."""
    numbers = tuple(str(number) for number in range(1, len(gate.choices) + 1))
    return numbers if set(numbers).isdisjoint(gate.choices) else gate.choices


def _by_number(gate: Gate, line: str) -> Reply:
    """The choice with this number, with a text if the choice takes one; otherwise free text."""
    number, _, words = line.partition(" ")
    keys = _keys(gate)
    chosen = dict(zip(keys, gate.choices, strict=True)).get(number, "")
    if takes_text(gate):
        return Said(chosen) if chosen and not words else Said(None, line)
    if not chosen:
        return Unclear(f"Type one of: {', '.join(map(choice_line, keys))}.")
    if words and not gate.free_text:
        return Unclear("This question takes no words beside its choices.")
    return Said(chosen, words.strip() or None)
