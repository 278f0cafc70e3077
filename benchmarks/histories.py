"""What Temporal recorded of a run: steps by kind, and events and bytes of each turn."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import mean, median

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

WINDOW = 10


@dataclass(frozen=True, slots=True)
class TurnSize:
    """Events, bytes and seconds from one model call's scheduling up to the next one's."""

    events: int
    size: int
    seconds: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run, over all its executions.

    `turns` and `turns_s` (from the first question to the last) leave out what opens and closes it.
    """

    seconds: float
    turns_s: float
    steps: Mapping[str, int]
    turns: tuple[TurnSize, ...]
    executions: int


def sizes(turns: Sequence[TurnSize]) -> list[int]:
    """The bytes of each turn."""
    return [turn.size for turn in turns]


def early(turns: Sequence[TurnSize]) -> Sequence[TurnSize]:
    """The ten turns around turn 10, or fewer of a short run; ten, for some things happen in each
    tenth turn.
    """
    width = min(WINDOW, len(turns) // 2)
    start = min(WINDOW // 2, len(turns) // 4)
    return turns[start : start + width]


def late(turns: Sequence[TurnSize]) -> Sequence[TurnSize]:
    """The last ten turns, or fewer of a short run."""
    return turns[-min(WINDOW, len(turns) // 2) :]


def mean_size(turns: Sequence[TurnSize]) -> float:
    """Bytes a turn."""
    return mean(turn.size for turn in turns)


def mean_events(turns: Sequence[TurnSize]) -> float:
    """Events a turn."""
    return mean(turn.events for turn in turns)


def slope(turns: Sequence[TurnSize]) -> float:
    """By how many bytes a turn is larger than the one before: the median over all pairs.

    A median, because the turn in which a run continues as new carries its whole state once.
    """
    return rise(sizes(turns))


def rise(values: Sequence[float]) -> float:
    """By how much a value is larger than the one before: the median over all pairs."""
    rises = [
        (values[right] - values[left]) / (right - left)
        for left in range(len(values))
        for right in range(left + 1, len(values))
    ]
    return median(rises) if rises else 0.0


async def recorded(client: Client, run: str, *, first: str, model_step: str) -> Recorded:
    """Read a run that has ended.

    Args:
        client: of its namespace.
        run: its workflow id.
        first: the run id of its first execution.
        model_step: the activity type that begins a turn.
    """
    events: list[HistoryEvent] = []
    following, executions = first, 0
    while following:
        history = await client.get_workflow_handle(run, run_id=following).fetch_history()
        events += history.events
        executions += 1
        last = history.events[-1]
        following = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    questions = [event for event in events if _scheduled(event) == model_step]
    return Recorded(
        seconds=_between(events[0], events[-1]),
        turns_s=_between(questions[0], questions[-1]),
        steps=Counter(filter(None, map(_scheduled, events))),
        turns=_turns(events, model_step),
        executions=executions,
    )


def _turns(events: Iterable[HistoryEvent], model_step: str) -> tuple[TurnSize, ...]:
    found: list[list[HistoryEvent]] = [[]]
    for event in events:
        if _scheduled(event) == model_step:
            found.append([])
        found[-1].append(event)
    # Before the first question the run is opened; the last one is answered, and the run closed.
    return tuple(
        TurnSize(
            events=len(turn),
            size=sum(event.ByteSize() for event in turn),
            seconds=_between(turn[0], following[0]),
        )
        for turn, following in pairwise(found[1:])
    )


def _scheduled(event: HistoryEvent) -> str:
    return event.activity_task_scheduled_event_attributes.activity_type.name


def _between(first: HistoryEvent, last: HistoryEvent) -> float:
    return (_at(last.event_time) - _at(first.event_time)).total_seconds()


def _at(time: Timestamp) -> datetime:
    return time.ToDatetime(tzinfo=UTC)
