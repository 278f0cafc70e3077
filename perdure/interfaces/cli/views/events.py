"""One event as one line: the story of a run in as few lines as it takes."""

from collections.abc import Callable, Mapping

from pydantic import JsonValue
from rich.text import Text

from perdure.domain.events import Event, EventType
from perdure.domain.gates import CHOICES
from perdure.domain.result import BAD_OUTCOMES
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line
from perdure.interfaces.cli.views.wording import model_name, one_line, score

Data = Mapping[str, JsonValue]
_MODEL_FIELDS = frozenset({"model", "executor", "failed", "to"})


def event_line(event: Event, *, limit: int | None = None, detailed: bool = False) -> Text | None:
    """The line of an event; None for one that tells a person nothing (unless `detailed`).

    Args:
        event: what happened.
        limit: the run's iteration limit, shown as `iter 1/3`.
        detailed: every event gets a line.
    """
    tell = _TELLERS.get(event.type)
    if tell is not None:
        return tell(event, limit)
    return _otherwise(event) if detailed else None


def _iteration(event: Event, limit: int | None) -> str:
    of = f"/{limit}" if limit else ""
    return f"[iter {event.iteration}{of}]"


def _completed(event: Event, limit: int | None) -> Text:
    data = event.data
    value = _number(data, "score")
    error = _word(data, "error")
    pieces = [f"score {score(value)}"] if value is not None else []
    if value is None:
        pieces.append(error or _word(data, "decision") or "done")
    pieces.extend(filter(None, (_evaluation(data), _missing(data))))
    style = BAD if error and value is None else ""
    return line((_iteration(event, limit), "bold cyan"), " ", (" · ".join(pieces), style))


def _evaluation(data: Data) -> str:
    kind = _word(data, "evaluation")
    if kind in {"", "full", "none"}:
        return ""
    saved = _number(data, "saved")
    share = f", {saved:.0%} tokens saved" if saved else ""
    return f"evaluation {kind.replace('_', ' ')}{share}"


def _missing(data: Data) -> str:
    for name in ("missing", "gaps", "findings", "gap"):
        value = data.get(name)
        texts = [_text_of(item) for item in value] if isinstance(value, list) else [_text_of(value)]
        told = [text for text in texts if text]
        if told:
            more = f" and {len(told) - 2} more" if len(told) > 2 else ""
            return f"missing {'; '.join(one_line(text, 60) for text in told[:2])}{more}"
    return ""


def _ended(event: Event, limit: int | None) -> Text:
    outcome = _word(event.data, "outcome") or "ended"
    told = _word(event.data, "explanation") or _word(event.data, "reason")
    style = BAD if outcome in BAD_OUTCOMES else GOOD
    return line(("[done]", f"bold {style}"), f" {outcome.replace('_', ' ')} · {told}")


def _gate_opened(event: Event, limit: int | None) -> Text:
    gate, kind = _word(event.data, "gate"), _word(event.data, "kind").replace("_", " ")
    question = one_line(_word(event.data, "prompt"), 200)
    how = f"perdure answer {event.run}:{gate} " + _choices(event.data)
    return line((f"[{kind or 'question'} {gate}]", "bold magenta"), f" {question}  → {how}")


def _choices(data: Data) -> str:
    """The choices of a gate as a shell word; free text where it has none."""
    kind = data.get("kind")
    known = next((choices for name, choices in CHOICES.items() if name == kind), ())
    return "|".join(_words(data, "choices") or known) or '"your answer"'


def _tool(event: Event, limit: int | None) -> Text:
    name = _word(event.data, "name") or _word(event.data, "tool")
    outcome = _word(event.data, "outcome") or _word(event.data, "why")
    style = DIM if outcome in {"", "ok"} else WARN
    return line(("[tool]", style), f" {name}" + (f" · {one_line(outcome)}" if outcome else ""))


def _named(tag: str, *fields: str, style: str = DIM) -> Callable[[Event, int | None], Text]:
    """A line of a tag and the first words that the event has under `fields`."""

    def tell(event: Event, limit: int | None) -> Text:
        told = (_told(event.data, name) for name in fields)
        return line((f"[{tag}]", style), " " + " · ".join(one_line(text) for text in told if text))

    return tell


def _budget(event: Event, limit: int | None) -> Text:
    dimension = _word(event.data, "dimension") or ", ".join(_words(event.data, "dimensions"))
    return line(("[budget]", WARN), f" {dimension.replace('_', ' ')} passed 80 % of its limit")


_TELLERS: Mapping[EventType, Callable[[Event, int | None], Text]] = {
    "run_started": _named("start", "goal", "model", "executor"),
    "recalled": _named("recall", "text", "similar", "learnings"),
    "planned": _named("plan", "steps", "text"),
    "iteration_completed": _completed,
    "model_failed_over": _named("model", "failed", "to", "why", style=WARN),
    "context_pressure": _named("context", "cure", "stop_reason", style=WARN),
    "tool_finished": _tool,
    "tool_refused": _tool,
    "budget_warning": _budget,
    "gate_opened": _gate_opened,
    "gate_answered": _named("answer", "gate", "answer", "by", style="magenta"),
    "paused": _named("paused", "by", style=WARN),
    "resumed": _named("resumed", "by", style=GOOD),
    "amended": _named("amended", "by", "guidance", style=WARN),
    "input_added": _named("input", "by"),
    "ended": _ended,
}


def _otherwise(event: Event) -> Text:
    told = ", ".join(
        f"{name}={one_line(_told(event.data, name), 60)}"
        for name, value in event.data.items()
        if value
    )
    return line((f"[{event.type.replace('_', ' ')}]", DIM), f" {told}" if told else "")


def _told(data: Data, name: str) -> str:
    """What stands under a name; models are named as people know them."""
    text = _text_of(data.get(name))
    return model_name(text) if name in _MODEL_FIELDS else text


def _word(data: Data, name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _words(data: Data, name: str) -> list[str]:
    value = data.get(name)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _number(data: Data, name: str) -> float | None:
    value = data.get(name)
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
