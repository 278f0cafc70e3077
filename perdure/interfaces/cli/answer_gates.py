"""Answers questions of a followed run on the terminal, where they appear.

The terminal keeps its normal line mode: it edits the line, echoes it, and turns Ctrl-C into a
signal.
"""

import asyncio
import errno
import os
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TextIO
from uuid import uuid4

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGate
from perdure.interfaces.cli.output import Picture
from perdure.interfaces.cli.replies import AskWords, Later, Said, Unclear, menu_of, read_reply
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.gates import gate_view, how_to_answer
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, line
from perdure.interfaces.run_tree import gate_in_full
from perdure.interfaces.services import Services

# A Linux terminal keeps at most this much of one line and drops the rest.
LINE_BYTES = 4_095


class TooLong(Exception):
    """The line is longer than the terminal can hold."""


class Keyboard:
    """The keys of one terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._fd = stream.fileno()

    @property
    def is_ours(self) -> bool:
        """Whether this process may read keys; the system stops a background job that reads."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError as error:
            # Not our controlling terminal, so the system stops no job that reads from it.
            return error.errno == errno.ENOTTY

    def discard(self) -> None:
        """Drop unread input, including an unfinished line."""
        if self.is_ours:
            # From the background, the system would stop this process for it.
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def line(self) -> str:
        """Read the next line, without its line end.

        Raises:
            EOFError: Ctrl-D, the terminal is gone, or the process went to the background.
            TooLong: the line is longer than a terminal can hold.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)
        # Asked again: while it waited for keys, the process may have gone to the background.
        if not self.is_ours:
            raise EOFError
        try:
            # Past Python's reader, whose buffer would keep lines where no event loop sees them.
            typed = os.read(self._fd, 2 * LINE_BYTES)
        except OSError as error:
            raise EOFError from error
        if not typed:
            raise EOFError
        # The terminal has dropped the rest, and half an answer is another answer.
        if len(typed) >= LINE_BYTES:
            raise TooLong
        return typed.decode(errors="replace").rstrip("\r\n")


def _settle(ready: asyncio.Future[None]) -> None:
    # Called in each turn of the loop while keys are there, until the reader is removed.
    if not ready.done():
        ready.set_result(None)


def keyboard_of(stream: TextIO | None) -> Keyboard | None:
    """The keyboard behind a stream; None if it is not a terminal."""
    return Keyboard(stream) if stream is not None and stream.isatty() else None


# A later gate may have the same number but other arguments; the full hash tells them apart.
Asked = tuple[str, str, str | None]


@dataclass(slots=True)
class _Standing:
    key: Asked
    gate: Gate
    task: asyncio.Task[None]


class Asking:
    """Shows at most one question at a time on the terminal, with a prompt below it.

    Args:
        picture: the live view; it is hidden meanwhile, as it would be drawn over the typed line.
    """

    def __init__(
        self, session: Session, services: Services, keyboard: Keyboard, picture: Picture
    ) -> None:
        self._session = session
        self._services = services
        self._keyboard = keyboard
        self._picture = picture
        self._standing: _Standing | None = None
        self._done_with: set[Asked] = set()
        self._is_sending = False
        self._below: dict[str, OpenGate] = {}

    @property
    def open(self) -> bool:
        """Whether a prompt holds the terminal."""
        return self._standing is not None

    async def look(self, status: RunStatus) -> None:
        """Show the next question, or remove one that was settled elsewhere."""
        waiting = await self._waiting(status)
        standing = self._standing
        if standing is not None:
            # An answer of ours settles the question before its receipt is here; nobody else did.
            unsettled = standing.key in waiting or self._is_sending
            if unsettled and not standing.task.done():
                return
            await self._take_away(status.id)
        new = [asked for key, asked in waiting.items() if key not in self._done_with]
        # Each look again: a job that comes back to the foreground is asked then.
        if new and self._keyboard.is_ours:
            self._put(new[0])

    async def _waiting(self, status: RunStatus) -> dict[Asked, OpenGate]:
        """The open questions of a run and the runs below it; those below are looked up once."""
        found = [_open(status, gate) for gate in status.gates if gate.open]
        below = {question.key: question.run for question in status.questions}
        self._below = {key: asked for key, asked in self._below.items() if key in below}
        for run in {run for key, run in below.items() if key not in self._below}:
            # The run has ended, or its store is unavailable: the next look tries again.
            with suppress(PerdureError):
                asker = await self._services.gateway.status(run)
                self._below |= {
                    f"{run}:{gate.name}": _open(asker, gate) for gate in asker.gates if gate.open
                }
        return {_key(asked): asked for asked in (*found, *self._below.values())}

    async def close(self) -> None:
        """Remove the prompt but leave the question open."""
        if self._standing is not None:
            await self._take_away(None)

    def _put(self, asked: OpenGate) -> None:
        self._picture.hide()
        # In a task, so that a question that is settled elsewhere can be taken away while it waits.
        asking = asyncio.create_task(self._ask(asked))
        self._standing = _Standing(_key(asked), asked.gate, asking)

    async def _take_away(self, run: str | None) -> None:
        """End the prompt; if a run is given, say that its question was settled elsewhere."""
        standing, self._standing = self._standing, None
        if standing is None:
            return
        # Not asked twice here, also when it stays open: who put it off was told how to answer.
        self._done_with.add(standing.key)
        interrupted = not standing.task.done()
        standing.task.cancel()
        (ended,) = await asyncio.gather(standing.task, return_exceptions=True)
        if interrupted:
            # A half-typed line must reach neither the next question nor the shell.
            self._keyboard.discard()
            said = "" if run is None else f"{standing.gate.name} was settled elsewhere."
            self._session.output.tell(line("\n", (said, DIM)))
        self._picture.show()
        if isinstance(ended, Exception):
            raise ended

    async def _ask(self, asked: OpenGate) -> None:
        """Show the full question, then ask until it is answered or postponed."""
        output, gate = self._session.output, asked.gate
        try:
            whole = await gate_in_full(gate, self._services.blobs)
        except PerdureError as error:
            # A person must not answer a question that they cannot read in full.
            output.error(error)
            output.tell(line((f"Answer it later: {how_to_answer(gate, asked.run)}", DIM)))
            return
        shown = asked.model_copy(update={"gate": whole})
        output.tell(gate_view(shown, self._session.context.now()))
        # Keys pressed before the question was shown were not meant for it.
        self._keyboard.discard()
        while not await self._ask_once(asked):
            pass

    async def _ask_once(self, asked: OpenGate) -> bool:
        """Read one line and act on it; False to ask again."""
        output, gate = self._session.output, asked.gate
        later = line((f"It stays open: {how_to_answer(gate, asked.run)}", DIM))
        try:
            reply = read_reply(gate, await self._typed(f"{gate.name}  {menu_of(gate)} > "))
            if isinstance(reply, AskWords):
                words = (await self._typed(f"{gate.name}  {reply.choice}, because > ")).strip()
                reply = Said(reply.choice, words) if words else Unclear("Nothing was said.")
        except EOFError:
            output.tell(line("\n", later))
            return True
        except TooLong:
            beside = f'perdure answer {asked.run}:{gate.name} CHOICE --text "…"'
            reply = Unclear(f"A terminal keeps no line of this length. Send it: {beside}")
        match reply:
            case Later():
                output.tell(later)
                return True
            case Unclear():
                output.tell(line((reply.why, WARN)))
                return False
            case Said():
                return await self._send_answer(asked, reply)

    async def _send_answer(self, asked: OpenGate, said: Said) -> bool:
        """Answer exactly this gate: by its name and the full hash of the arguments shown."""
        answer = Answer(
            by=self._session.context.user,
            # Another one for each try: after a refusal, another answer may be typed.
            request_id=uuid4().hex,
            gate=asked.gate.name,
            choice=said.choice,
            text=said.text,
            args_hash=asked.gate.args_hash,
        )
        self._is_sending = True
        try:
            await self._services.gateway.verb(asked.run, answer)
        except PerdureError as error:
            self._session.output.error(error)
            return False
        finally:
            self._is_sending = False
        told = said.choice or "answered"
        self._session.output.tell(line((f"✓ {asked.gate.name}: {told}", GOOD)))
        return True

    async def _typed(self, prompt: str) -> str:
        self._session.output.prompt(prompt)
        return await self._keyboard.line()


class _NobodyAsks:
    """Stands in for `Asking` without a keyboard: questions are shown, and answered elsewhere."""

    open = False

    async def look(self, status: RunStatus) -> None:
        """Do nothing."""


@asynccontextmanager
async def asking_on(
    session: Session, services: Services, picture: Picture
) -> AsyncGenerator["Asking | _NobodyAsks"]:
    """Ask questions below a live view if a person can type; no prompt remains afterwards."""
    keyboard = keyboard_of(session.context.stdin)
    if keyboard is None:
        yield _NobodyAsks()
        return
    asking = Asking(session, services, keyboard, picture)
    try:
        yield asking
    finally:
        await asking.close()


def _open(asker: RunStatus, gate: Gate) -> OpenGate:
    return OpenGate(run=asker.id, kind=asker.kind, goal=asker.goal, gate=gate)


def _key(asked: OpenGate) -> Asked:
    return asked.run, asked.gate.id, asked.gate.args_hash
