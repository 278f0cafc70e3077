"""The story of a run in few lines: one event makes one line, or several share one."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue
from rich.text import Text

from perdure.domain.run.answering import answer_command
from perdure.domain.run.events import Event, EventType
from perdure.domain.run.gates import CHOICES
from perdure.domain.run.hooks import adaptation_lines
from perdure.domain.run.result import BAD_OUTCOMES
from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line
from perdure.interfaces.formatting import duration, model_name, one_line, plural, score, tokens

Data = Mapping[str, JsonValue]
Teller = Callable[[Event, int | None], Text | None]
STEPS_SHOWN = 3
LEAST_SHARE = 0.01
WORD_CHARACTERS = 500
WORTH_TELLING_MS = 1000
_MODEL_FIELDS = frozenset({"model", "executor", "failed", "to"})


def event_line(event: Event, *, limit: int | None = None) -> Text | None:
    """The line of an event; None for an event that people need not see.

    Args:
        event: what happened.
        limit: the run's iteration limit, shown as `iter 1/3`.
    """
    tell = _TELLERS.get(event.type)
    return tell(event, limit) if tell is not None else None


def iteration_line(index: int, data: Data, *, limit: int | None = None) -> Text:
    """`[iter 2/3] score 0.89 (eval: incremental, 40 % tokens saved) · missing tone`.

    Args:
        index: of the iteration.
        data: `score`, `evaluation`, `saved`, `counted`, `missing`, `error`, `decision`,
            `adaptation` and `adapted`, as events and records have them.
        limit: the run's iteration limit.
    """
    value, error = _number(data, "score"), _word(data, "error")
    head = f"score {score(value)}" if value is not None else error or _word(data, "decision")
    tried = _word(data, "adaptation")
    if (_words(data, "missing") or error) and not tried.startswith("strategy "):
        tried = ""  # what will change is the missing or failed part, which the line already names
    pieces = [f"{head or 'done'}{_evaluation(data)}", *([one_line(tried)] if tried else [])]
    pieces += [*map(one_line, _words(data, "counted")), *filter(None, (_missing(data),))]
    adapted = data.get("adapted")
    if isinstance(adapted, dict) and adapted:
        pieces.append(f"next {one_line(', '.join(adaptation_lines(adapted)), 80)}")
    of = f"/{limit}" if limit else ""
    style = BAD if error and value is None else ""
    return line((f"[iter {index}{of}]", "bold cyan"), " ", (" · ".join(pieces), style))


def _completed(event: Event, limit: int | None) -> Text:
    return iteration_line(event.iteration, event.data, limit=limit)


def _evaluation(data: Data) -> str:
    """The kind of evaluation, unless it was a full one, and what it saved."""
    kind, saved = _word(data, "evaluation"), _number(data, "saved")
    told = [f"eval: {kind.replace('_', ' ')}"] if kind not in {"", "full", "none"} else []
    if saved is not None and saved >= LEAST_SHARE:
        told.append(f"{saved * 100:.0f} % tokens saved")
    return f" ({', '.join(told)})" if told else ""


def _missing(data: Data) -> str:
    told = [one_line(text, 60) for text in _words(data, "missing")]
    if not told:
        return ""
    said = "; ".join(told)
    # A judge's title often begins with "missing" already.
    return said if said.casefold().startswith("missing ") else f"missing {said}"


def _recalled(event: Event, limit: int | None) -> Text:
    failed = _word(event.data, "failed")
    if failed:
        return line(("[recall]", WARN), f" failed, the work goes on: {one_line(failed, 200)}")
    told = _word(event.data, "text") or "nothing similar is known yet"
    return line(("[recall]", DIM), f" {one_line(told, 200)}")


def _reset(event: Event, limit: int | None) -> Text:
    """What earlier executions spent after the point to which the run was reset."""
    spent, orphans = _number(event.data, "tokens") or 0, _words(event.data, "ended")
    told = f" goes on from an earlier point; {tokens(round(spent))} tokens were spent after it"
    return line(("[reset]", WARN), told + (f"; ended: {', '.join(orphans)}" if orphans else ""))


def _planned(event: Event, limit: int | None) -> Text | None:
    """The steps; None if no plan was wanted, unless the task was read as a question."""
    steps, failed = _words(event.data, "steps"), _word(event.data, "failed")
    if failed:
        return line(("[plan]", WARN), f" none, the work goes on: {one_line(failed)}")
    if event.data.get("read_only") is True:
        return line(
            ("[plan]", DIM), f" a question, one answer: {one_line(_word(event.data, 'why'))}"
        )
    if not steps:
        return None
    more = f" → and {len(steps) - STEPS_SHOWN} more" if len(steps) > STEPS_SHOWN else ""
    shown = " → ".join(one_line(step, 40) for step in steps[:STEPS_SHOWN])
    return line(("[plan]", DIM), f" {shown}{more}")


def _ended(event: Event, limit: int | None) -> Text:
    outcome = _word(event.data, "outcome") or "ended"
    told = _word(event.data, "explanation") or _word(event.data, "reason")
    style = BAD if outcome in BAD_OUTCOMES else GOOD
    return line(("[done]", f"bold {style}"), f" {outcome.replace('_', ' ')} · {told}")


def _gate_opened(event: Event, limit: int | None) -> Text:
    gate, kind = _word(event.data, "gate"), _word(event.data, "kind").replace("_", " ")
    question = one_line(_word(event.data, "prompt"), 200)
    how = answer_command(f"{event.run}:{gate}", _choices(event.data))
    return line((f"[{kind or 'question'} {gate}]", "bold magenta"), f" {question}  → {how}")


def _choices(data: Data) -> Sequence[str]:
    """The choices of a gate; none if it takes free text."""
    kind = data.get("kind")
    known = next((choices for name, choices in CHOICES.items() if name == kind), ())
    return _words(data, "choices") or known


def _tool(event: Event, limit: int | None) -> Text:
    name = _word(event.data, "name") or _word(event.data, "tool")
    outcome = _word(event.data, "outcome") or _word(event.data, "why")
    style = DIM if outcome in {"", "ok"} else WARN
    about, took = _word(event.data, "label"), _number(event.data, "ms")
    gave = one_line(_word(event.data, "result"), 100)
    told = [one_line(outcome)] if outcome and not (gave and outcome == "ok") else []
    told += [duration(took / 1000)] if took and took >= WORTH_TELLING_MS else []
    called = f"{name} {one_line(about, 80)}" if about else name
    called = f"{called} → {gave}" if gave else called
    return line(("[tool]", style), " " + " · ".join([called, *told]))


def _made(event: Event, limit: int | None) -> Text:
    """`[tool] made text.count for w1 (repaired)`."""
    how = [word for word in ("cached", "repaired") if event.data.get(word)]
    told = f" ({', '.join(how)})" if how else ""
    name, worker = one_line(_word(event.data, "tool")), one_line(_word(event.data, "worker"), 30)
    return line(("[tool]", GOOD), f" made {name} for {worker}{told}")


def _named(tag: str, *fields: str, style: str = DIM) -> Callable[[Event, int | None], Text]:
    """A line with a tag and the texts that the event has under `fields`."""

    def tell(event: Event, limit: int | None) -> Text:
        told = (_told(event.data, name) for name in fields)
        return line((f"[{tag}]", style), " " + " · ".join(one_line(text) for text in told if text))

    return tell


def _budget(event: Event, limit: int | None) -> Text:
    dimension = _word(event.data, "dimension") or ", ".join(_words(event.data, "dimensions"))
    return line(("[budget]", WARN), f" {dimension.replace('_', ' ')} passed 80 % of its limit")


def _stage(event: Event, limit: int | None) -> Text:
    """`[coder] completed · the first line of what it said`."""
    status, told = _word(event.data, "status"), _word(event.data, "text")
    style = DIM if status == "completed" else WARN
    # A JSON reply is left out, as the verdict read from it has its own line.
    said = f" · {one_line(told, 120)}" if told and not told.startswith("{") else ""
    return line((f"[{one_line(_word(event.data, 'stage'), 30)}]", style), f" {status}{said}")


def _verdict(event: Event, limit: int | None) -> Text:
    gate = _word(event.data, "gate")
    if gate:
        said = f" not complete ({gate.replace('_', ' ')}) · "
        return line(
            ("[verdict]", WARN), said, "; ".join(map(one_line, _words(event.data, "missing")))
        )
    word, why = _word(event.data, "verdict"), _word(event.data, "text")
    style = GOOD if word in {"approved", "achieved"} else WARN
    found = _number(event.data, "open")
    counted = f" · {found:.0f} open" if found else ""
    told = f" · {one_line(why, 160)}" if why else ""
    return line(("[verdict]", style), f" {word.replace('_', ' ')}{counted}{told}")


def _child(event: Event, limit: int | None) -> Text:
    """`[child w1] accepted · 3.1k tokens`."""
    outcome, reason = _word(event.data, "outcome") or "lost", _word(event.data, "reason")
    bad = outcome in BAD_OUTCOMES or outcome == "lost"
    why = "" if outcome == "accepted" or not reason else f" ({reason.replace('_', ' ')})"
    spent = _number(event.data, "tokens")
    told = f" · {tokens(round(spent))} tokens" if spent else ""
    name = one_line(_word(event.data, "name"), 30)
    text = f" {outcome.replace('_', ' ')}{why}{told}"
    return line((f"[child {name}]", WARN if bad else DIM), text)


def _strategy(event: Event, limit: int | None) -> Text | None:
    """The strategy of a manager; in a refine loop the iteration's line names it."""
    name, why = _word(event.data, "strategy"), one_line(_word(event.data, "why"))
    return line(("[strategy]", WARN), f" {' · '.join(filter(None, (name, why)))}") if name else None


_TELLERS: Mapping[EventType, Teller] = {
    "run_started": _named("start", "goal", "model", "executor"),
    "run_reset": _reset,
    "workspace_moved": _named("files", "how", style=WARN),
    "files_unsaved": _named("files not stored", "why", style=WARN),
    "recalled": _recalled,
    "planned": _planned,
    "iteration_completed": _completed,
    "model_failed_over": _named("model", "failed", "to", "why", style=WARN),
    "context_pressure": _named("context", "cure", "stop_reason", style=WARN),
    "tool_finished": _tool,
    "tool_refused": _tool,
    "tool_created": _made,
    "budget_warning": _budget,
    "stage_finished": _stage,
    "child_finished": _child,
    "strategy_switched": _strategy,
    "stall_warned": _named("stall", "why", style=WARN),
    "hook_failed": _named("hook", "kind", "hook", "why", style=WARN),
    "servers_asked": _named("waiting for MCP servers", "servers"),
    "input_unseen": _named("input", "role", "why", style=WARN),
    "skill_saved": _named("skill", "name"),
    "verdict": _verdict,
    "gate_opened": _gate_opened,
    "gate_answered": _named("answer", "gate", "answer", "by", style="magenta"),
    "paused": _named("paused", "by", style=WARN),
    "resumed": _named("resumed", "by", style=GOOD),
    "amended": _named("amended", "by", "guidance", style=WARN),
    "input_added": _named("input", "by"),
    "ended": _ended,
}


def _told(data: Data, name: str) -> str:
    """The text of a field; models get their names for people."""
    text = _text_of(data.get(name))
    return model_name(text) if name in _MODEL_FIELDS else text


def _word(data: Data, name: str) -> str:
    """A text of an event on one line: a model may have written it, and must not add lines."""
    value = data.get(name)
    return one_line(value, WORD_CHARACTERS) if isinstance(value, str) else ""


def _words(data: Data, name: str) -> list[str]:
    value = data.get(name)
    given = value if isinstance(value, list) else []
    return [one_line(item, WORD_CHARACTERS) for item in given if isinstance(item, str)]


def _number(data: Data, name: str) -> float | None:
    value = data.get(name)
    # Events of other versions may hold anything: what is no number is left out, and breaks no view.
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text_of(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case dict():
            return _text_of(value.get("title") or value.get("gap") or value.get("name"))
        case list():
            return ", ".join(_text_of(item) for item in value)
        case _:
            return str(value)


GOAL_CHARACTERS = 80


class Story:
    """Turns events into lines; an evaluation is shown in the line of its iteration."""

    def __init__(self, status: RunStatus) -> None:
        self._converses = status.kind == "agent"
        self._goal = status.goal
        self._limit = status.iteration_limit
        self._evaluated: dict[str, JsonValue] = {}

    def line(self, event: Event) -> Text | None:
        """The line of the next event, if it has one; the end is left to the view of the result."""
        match event.type:
            case "ended":
                return None
            case "run_started":
                return line(("[start]", DIM), f" {one_line(self._goal, GOAL_CHARACTERS)}")
            case "evaluated":
                self._evaluated = _evaluations(event)
                return None
            case "model_replied" if self._converses:
                return self._turn(event)
            case "iteration_completed":
                return None if self._converses else self._iteration(event)
            case _:
                return event_line(event, limit=self._limit)

    def _iteration(self, event: Event) -> Text | None:
        told = event.model_copy(update={"data": {**self._evaluated, **event.data}})
        # For this iteration alone: the next one may end without an evaluation.
        self._evaluated = {}
        return event_line(told, limit=self._limit)

    def _turn(self, event: Event) -> Text:
        limit = f"/{self._limit}" if self._limit else ""
        count, text = event.data.get("tokens"), event.data.get("text")
        pieces = [plural(count, "token")] if isinstance(count, int) else []
        if isinstance(text, str) and text.strip():
            pieces.append(one_line(text))
        return line((f"[turn {event.iteration}{limit}]", "bold cyan"), " " + " · ".join(pieces))


def _evaluations(event: Event) -> dict[str, JsonValue]:
    """How an iteration was evaluated, and which dimensions are below 1.

    Fields of the event that ends the iteration override these.
    """
    scores = event.data.get("scores")
    low: list[JsonValue] = []
    if isinstance(scores, dict):
        low = [
            name for name, value in scores.items() if isinstance(value, int | float) and value < 1
        ]
    return {"evaluation": event.data.get("kind"), "missing": low}
