"""Text of model calls in flight, for people: outside of history, and lossy.

A worker keeps one row per call: the end of what the model has said, and how many characters came
before it. Whoever looks at the rows now and then gets what is new since the look before. What is
put together from the offsets is the model's text, with gaps only where they are named.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal, Self

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.child_runs import is_below

KEPT_CHARACTERS = 16_000
CALL_DIGITS = 16
MARK_DIGITS = 8
# Of the calls whose positions a watcher is given to come back with.
MARKED_CALLS = 50
_POSITION = re.compile(
    rf"(?P<call>[0-9a-f]{{{CALL_DIGITS}}})\.(?P<mark>[0-9a-f]{{{MARK_DIGITS}}})"
    r"\.(?P<offset>\d{1,12})(?P<ended>e?)"
)
# Besides the names: two dots, 12 digits, the `e` and a comma.
POSITIONS_LENGTH = MARKED_CALLS * (CALL_DIGITS + MARK_DIGITS + 16)


def call_name(call: str) -> str:
    """A short name of a logical call, the same for all its attempts."""
    return hashlib.sha256(call.encode()).hexdigest()[:CALL_DIGITS]


class LiveCall(FrozenModel):
    """A model call in flight: whose it is, what for, and the end of its text.

    `call` names the logical call; `key` and `attempt` name the attempt as the journal does. `start`
    counts the characters before `text`.
    """

    run: str
    call: str
    key: str
    attempt: int
    iteration: int
    phase: str
    role: str
    worker: str = ""
    model: str
    start: int = 0
    text: str = ""
    ended: bool = False

    @property
    def mark(self) -> str:
        """Tells this attempt from the others of the call."""
        told = f"{self.key}/{self.attempt}"
        return hashlib.sha256(told.encode()).hexdigest()[:MARK_DIGITS]

    @property
    def end(self) -> int:
        """How many characters the model has said."""
        return self.start + len(self.text)


class LivePart(FrozenModel):
    """One piece of news of a call.

    `text` begins `offset` characters after the beginning of the attempt; the `skipped` characters
    before it were not kept. A `call_restarted` begins again at 0, and what was told before is void.
    """

    type: Literal["call_started", "text", "call_restarted", "call_ended"]
    run: str
    call: str
    attempt: int
    iteration: int
    phase: str
    role: str
    worker: str = ""
    model: str
    offset: int = 0
    text: str = ""
    skipped: int = 0


class TextEnd:
    """The end of a text that grows; bounded."""

    def __init__(self, kept: int = KEPT_CHARACTERS) -> None:
        self._kept = kept
        self._pieces: list[str] = []
        self._held = 0
        self.length = 0

    def add(self, piece: str) -> None:
        """Take what follows."""
        self._pieces.append(piece)
        self._held += len(piece)
        self.length += len(piece)
        # Joined now and then, not for each token.
        if self._held > 2 * self._kept:
            self._joined()

    @property
    def start(self) -> int:
        """How many characters came before `text`."""
        return self.length - len(self.text)

    @property
    def text(self) -> str:
        """The last characters, as many as are kept."""
        return self._joined()

    def _joined(self) -> str:
        text = "".join(self._pieces)[-self._kept :]
        self._pieces, self._held = [text], len(text)
        return text


class _Position:
    """How far one call was read; its last row is unknown to a reader who came back."""

    __slots__ = ("ended", "mark", "offset", "row")

    def __init__(self, mark: str, offset: int, *, ended: bool) -> None:
        self.mark, self.offset, self.ended = mark, offset, ended
        self.row: LiveCall | None = None


class LiveReading:
    """How far one watcher has read the calls of a run."""

    def __init__(self) -> None:
        self._seen: dict[str, _Position] = {}

    @classmethod
    def since(cls, positions: str) -> Self:
        """Go on behind `positions`; what is none of them is left out."""
        reading = cls()
        for found in map(_POSITION.fullmatch, positions.split(",")):
            if found is not None:
                position = _Position(
                    found["mark"], int(found["offset"]), ended=bool(found["ended"])
                )
                reading._seen[found["call"]] = position
        return reading

    @property
    def positions(self) -> str:
        """What a watcher comes back with."""
        return ",".join(
            f"{call}.{seen.mark}.{seen.offset}{'e' * seen.ended}"
            for call, seen in [*self._seen.items()][-MARKED_CALLS:]
        )

    def news(self, calls: Sequence[LiveCall]) -> Iterator[LivePart]:
        """What is new in the rows; `positions` counts each part from the moment it is given."""
        present = {call.call for call in calls}
        # A list of its own: the loop takes entries out.
        for name in [name for name in self._seen if name not in present]:
            gone = self._seen.pop(name)
            # Of a call that only a position tells of, a watcher who came back has nothing to end.
            if gone.row is not None and not gone.ended:
                yield _part("call_ended", gone.row, offset=gone.offset)
        for call in calls:
            yield from self._of(call)

    def _of(self, call: LiveCall) -> Iterator[LivePart]:
        seen = self._seen.get(call.call)
        if seen is None or seen.mark != call.mark:
            again = seen is not None
            seen = self._seen[call.call] = _Position(call.mark, 0, ended=False)
            yield _part("call_restarted" if again else "call_started", call)
        seen.row = call
        if call.end > seen.offset:
            begin = max(seen.offset, call.start)
            skipped, seen.offset = begin - seen.offset, call.end
            text = call.text[begin - call.start :]
            yield _part("text", call, offset=begin, text=text, skipped=skipped)
        if call.ended and not seen.ended:
            seen.ended = True
            yield _part("call_ended", call, offset=seen.offset)


def _part(
    kind: Literal["call_started", "text", "call_restarted", "call_ended"],
    call: LiveCall,
    *,
    offset: int = 0,
    text: str = "",
    skipped: int = 0,
) -> LivePart:
    facts = call.model_dump(exclude={"key", "start", "text", "ended"})
    return LivePart(type=kind, offset=offset, text=text, skipped=skipped, **facts)


def newest_text(calls: Sequence[LiveCall], run: str) -> str | None:
    """The text of the run's own call in flight; of several, that which spoke last."""
    own = [call.text for call in calls if call.run == run and call.text and not call.ended]
    return own[-1] if own else None


class Watches:
    """Which runs somebody watches, from the numbers that watchers raise while they do.

    A run counts as watched for `lease_s` after its number was seen to change, on the worker's own
    clock: the clocks of watchers may differ.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self, beats: dict[str, int], now: float) -> None:
        """Take the numbers as they are in the store."""
        self._seen = {
            run: self._seen[run] if self._seen.get(run, (None,))[0] == beat else (beat, now)
            for run, beat in beats.items()
        }

    def is_watched(self, run: str, now: float) -> bool:
        """Whether somebody watches a run, or one above it."""
        return any(
            now - since <= self._lease_s
            for watched, (_, since) in self._seen.items()
            if run == watched or is_below(run, watched)
        )
