"""The story of a run, line by line: what several events say together."""

from pydantic import JsonValue
from rich.text import Text

from perdure.domain.run.events import Event
from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.views.events import event_line
from perdure.interfaces.cli.views.formatting import one_line, plural
from perdure.interfaces.cli.views.layout import DIM, line

GOAL_CHARACTERS = 80


class Story:
    """Turns events into lines; an evaluation is told with the iteration that it belongs to."""

    def __init__(self, status: RunStatus) -> None:
        self._converses = status.kind == "agent"
        self._goal = status.goal
        self._limit = status.iteration_limit
        self._evaluated: dict[str, JsonValue] = {}

    def line(self, event: Event) -> Text | None:
        """The line of the next event, if it has one; the end is told by the result."""
        match event.type:
            case "ended":
                return None
            case "run_started":
                return line(("[start]", DIM), f" {one_line(self._goal, GOAL_CHARACTERS)}")
            case "evaluated":
                self._evaluated = _evaluation(event)
                return None
            case "model_replied" if self._converses:
                return self._turn(event)
            case "iteration_completed":
                return None if self._converses else self._iteration(event)
            case _:
                return event_line(event, limit=self._limit)

    def _iteration(self, event: Event) -> Text | None:
        told = event.model_copy(update={"data": {**self._evaluated, **event.data}})
        self._evaluated = {}
        return event_line(told, limit=self._limit)

    def _turn(self, event: Event) -> Text:
        limit = f"/{self._limit}" if self._limit else ""
        count, text = event.data.get("tokens"), event.data.get("text")
        pieces = [plural(count, "token")] if isinstance(count, int) else []
        if isinstance(text, str) and text.strip():
            pieces.append(one_line(text))
        return line((f"[turn {event.iteration}{limit}]", "bold cyan"), " " + " · ".join(pieces))


def _evaluation(event: Event) -> dict[str, JsonValue]:
    """How an iteration was evaluated, and which dimensions are below full.

    What the end of the iteration says itself goes over it.
    """
    scores = event.data.get("scores")
    low: list[JsonValue] = []
    if isinstance(scores, dict):
        low = [
            name for name, value in scores.items() if isinstance(value, int | float) and value < 1
        ]
    return {"evaluation": event.data.get("kind"), "missing": low}
