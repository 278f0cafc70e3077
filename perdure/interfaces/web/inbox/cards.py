"""Questions as cards: each shows the thing to decide, and what an answer or silence leads to."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.run.gates import DENY, END, Gate, expiry_choice
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.gateway.types import OpenGate
from perdure.interfaces.formatting import duration, money, one_line, plural, tokens
from perdure.interfaces.rest.schemas import Best
from perdure.interfaces.web.api_calls import Api, ApiProblem, at
from perdure.interfaces.web.inbox.argument_words import ShownArgument, in_words
from perdure.interfaces.web.inbox.call_view import CallView, call_view


@dataclass(frozen=True, slots=True)
class Gap:
    """What one dimension of the best result lacks."""

    name: str
    score: float | None
    gap: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that can be raised: its name, its label, its figure, whether it is a whole number."""

    name: str
    words: str
    figure: str
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """An open question with everything needed to answer it.

    Args:
        run: the run that asks; `path` has the names of the runs from the root down to it.
        asked: the question, without what the card shows in other fields.
        call: the tool call that waits for approval, and its `arguments` in words.
        draft: the text to judge.
        gaps: what the best result lacks.
        spend: what the run used so far, in words.
        raised: for a spent budget, what a raise would buy.
        silence: what happens when nobody answers.
        meanings: what the choices lead to, if their names alone do not say it.
        limits: for a spent budget, the limits that may be raised.
        alike: a key shared by questions that may be answered together.
    """

    run: str
    goal: str
    path: tuple[str, ...]
    gate: Gate
    asked: str
    call: CallView | None = None
    arguments: tuple[ShownArgument, ...] = ()
    draft: str | None = None
    score: float | None = None
    gaps: tuple[Gap, ...] = ()
    spend: str = ""
    raised: str = ""
    limits: tuple[Limit, ...] = ()
    silence: str = ""
    meanings: tuple[tuple[str, str], ...] = ()
    alike: str = ""

    @property
    def key(self) -> str:
        """The card's id on the page."""
        return f"{self.run}-{self.gate.id}"

    @property
    def named(self) -> str:
        """A label that tells the card from all others, for screen readers."""
        about = self.gate.subject or self.gate.kind.replace("_", " ")
        goal = one_line(self.goal, 60)
        return ", ".join(filter(None, (one_line(about, 60), self.gate.name, goal, self.run)))

    @property
    def value(self) -> str:
        """What identifies it in one answer to several: run, name, hash of arguments, and when."""
        asked = self.gate.opened_at.isoformat()
        return " ".join((self.run, self.gate.name, self.gate.args_hash or "", asked))


async def cards_of(
    api: Api,
    found: Sequence[OpenGate],
    *,
    now: datetime,
    known: Mapping[str, RunStatus] | None = None,
) -> tuple[Card, ...]:
    """Build the cards of questions; each run is read once.

    Args:
        api: to read the runs with.
        found: the questions from the list.
        now: to count deadlines from.
        known: statuses of runs that the caller has read already.
    """
    looks = dict(known or {})
    missing = [run for run in dict.fromkeys(one.run for one in found) if run not in looks]
    for run, status in zip(
        missing, await asyncio.gather(*(_status(api, run) for run in missing)), strict=True
    ):
        if status is not None:
            looks[run] = status
    return tuple(
        await asyncio.gather(*(_card(api, one, looks.get(one.run), now=now) for one in found))
    )


def groups_of(cards: Sequence[Card]) -> dict[str, int]:
    """The groups that may be answered together, with their sizes; only groups of two or more."""
    counted = Counter(card.alike for card in cards if card.alike)
    return {alike: count for alike, count in counted.items() if count > 1}


def silence_of(gate: Gate, now: datetime) -> str:
    """How long a question waits and what happens then, in a sentence."""
    choice = expiry_choice(gate)
    if gate.deadline is None or choice is None:
        return "It waits until somebody answers; nothing else happens before."
    left = (gate.deadline - now).total_seconds()
    when = f"{gate.deadline:%d %B, %H:%M} UTC"
    within = f" (in {duration(left)})" if left > 0 else ""
    return f"If nobody answers by {when}{within}, {_then(gate, choice)}."


def _then(gate: Gate, choice: str) -> str:
    if choice == END:
        return "the run ends with the best result that it has by then"
    if choice == DENY and gate.kind == "tool_approval":
        return "the call is denied, and the run goes on without it"
    return f"the answer is “{choice}”"


def raise_buys(budget: BudgetStatus, iterations: int) -> str:
    """What more budget would buy, judged by what it bought so far."""
    if iterations < 1 or budget.cost_usd is None or not budget.tokens:
        return ""
    each = f"{money(budget.cost_usd / iterations)} and {tokens(budget.tokens // iterations)} tokens"
    limit = budget.limits.cost_usd
    more = int(limit * iterations / budget.cost_usd) if limit and budget.cost_usd else 0
    doubled = f"; {money(limit)} more buy about {plural(more, 'iteration')}" if more else ""
    return f"An iteration cost {each} so far{doubled}."


def limits_of(budget: BudgetStatus) -> tuple[Limit, ...]:
    """The limits of a budget; dimensions without a limit are left out."""
    return tuple(
        Limit(name, words, f"{limit:g}" if isinstance(limit, float) else str(limit), whole)
        for name, (words, whole) in LIMITS.items()
        if (limit := getattr(budget.limits, name))
    )


def scores_text(fields: Mapping[str, str], names: Sequence[str]) -> str:
    """The answer text of a review: a line for each name with its score and comment."""
    # The dash keeps words apart from the score: `1 star` is no 1.
    lines = [
        f"{name}: {fields.get(f'score:{name}', '').strip()} – "
        f"{_plain(fields.get(f'words:{name}', ''), names)}".rstrip(" –")
        for name in names
    ]
    return "\n".join(lines)


def _plain(words: str, names: Sequence[str]) -> str:
    """A comment in which nothing can be read as the score of another name."""
    either = "|".join(re.escape(name) for name in names)
    return re.sub(rf"({either})\s*[:=]", r"\1 –", " ".join(words.split()), flags=re.IGNORECASE)


async def _card(api: Api, one: OpenGate, status: RunStatus | None, *, now: datetime) -> Card:
    gate, whole = one.gate, await _in_full(api, one)
    call = (
        call_view(whole.prompt, tool=gate.subject or "") if gate.kind == "tool_approval" else None
    )
    draft = _draft_of(gate, whole)
    judged = await _best(api, one.run) if gate.kind == "escalation" else None
    budget = status.budget if status is not None and gate.kind == "budget" else None
    return Card(
        run=one.run,
        goal=one.goal,
        path=one.path,
        gate=gate,
        asked=_asked(gate, whole, draft=draft),
        call=call,
        arguments=() if call is None else in_words(gate.subject or "", call.arguments),
        draft=draft if judged is None else judged.output,
        score=None if judged is None else judged.score,
        gaps=() if judged is None else gaps_of(judged),
        spend=_spend(status),
        raised="" if budget is None else raise_buys(budget, status.iteration if status else 0),
        limits=() if budget is None else limits_of(budget),
        silence=silence_of(gate, now),
        meanings=meanings_of(gate),
        alike=alike_of(gate),
    )


# Limits that may be raised, in the order of the fields: the label, and whether it is a whole
# number.
LIMITS: dict[str, tuple[str, bool]] = {
    "cost_usd": ("USD", False),
    "tokens": ("Tokens", True),
    "output_tokens": ("Output tokens", True),
    "model_calls": ("Model calls", True),
    "tool_calls": ("Tool calls", True),
    "iterations": ("Iterations", True),
    "workers": ("Workers", True),
    "active_time": ("Active seconds", False),
    "wall_time": ("Seconds in all", False),
}
MEANINGS: dict[str, dict[str, str]] = {
    "escalation": {
        "continue": "it works on, guided by your note",
        "accept": "the best result so far counts as good enough, and the run ends",
        "stop": "the run ends with its best result, not accepted",
    },
    "budget": {
        "raise": "the limits that you fill in hold from now on, and it works on; it takes a "
        "higher one of what is spent",
        "end": "the run ends with its best result",
    },
}


def meanings_of(gate: Gate) -> tuple[tuple[str, str], ...]:
    """What the choices lead to, as far as all gates of this kind share it."""
    known = MEANINGS.get(gate.kind, {})
    return tuple((choice, known[choice]) for choice in gate.choices if choice in known)


def alike_of(gate: Gate) -> str:
    """A key shared by questions of one kind, subject and choices; empty if there are none."""
    if not gate.choices or gate.scores:
        return ""
    return f"{gate.kind} {gate.subject or ''}".strip() + f" ({', '.join(gate.choices)})"


def _asked(gate: Gate, whole: Gate, *, draft: str | None) -> str:
    if draft is None:
        return whole.prompt
    # The page shows the text and a field for each score, so those lines are left out.
    # Of the short question: the full one has the draft in it.
    lines = gate.prompt.split("\n")
    return "\n".join(line for line in lines if not line.startswith(("The text: ", "Answer like ")))


def _draft_of(gate: Gate, whole: Gate) -> str | None:
    """The text under review: what the full question has and the short one lacks."""
    if gate.kind != "review" or gate.details is None or whole is gate:
        return None
    return whole.prompt.removeprefix(gate.prompt).strip() or None


def _spend(status: RunStatus | None) -> str:
    if status is None:
        return ""
    budget = status.budget
    limit = f" of {money(budget.limits.cost_usd)}" if budget.limits.cost_usd else ""
    return f"{money(budget.cost_usd)}{limit}, {tokens(budget.tokens)} tokens"


def gaps_of(best: Best) -> tuple[Gap, ...]:
    """What is missing, from the iteration's record; before it is written, the scores below 1."""
    found = best.dimensions
    if found:
        return tuple(
            Gap(name, one.score, one.gap)
            for name, one in found.items()
            if one.gap or (one.score or 0) < 1
        )
    return tuple(Gap(name, score, "") for name, score in best.scores.items() if score < 1)


async def _status(api: Api, run: str) -> RunStatus | None:
    try:
        return await api.get(at("loops", run), RunStatus)
    except ApiProblem:
        return None  # its worker is unavailable; the question can still be read


async def _in_full(api: Api, found: OpenGate) -> Gate:
    """The full question; if it has just closed, as it stands in the list."""
    if found.gate.details is None:
        return found.gate
    try:
        return await api.get(at("loops", found.run, "gates", found.gate.id), Gate)
    except ApiProblem:
        return found.gate


async def _best(api: Api, run: str) -> Best | None:
    try:
        return await api.get(f"{at('loops', run)}/best", Best)
    except ApiProblem:
        return None  # there is no best output yet
