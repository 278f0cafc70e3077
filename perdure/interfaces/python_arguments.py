"""What Python programs hand over, checked where they call: wrong types are refused in words."""

import asyncio
import os
from collections.abc import Mapping
from operator import index
from typing import NoReturn, SupportsIndex, TypeVar

from pydantic import BaseModel, ValidationError

from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.foundation.problems import problems_of, shown
from perdure.submission.plain_values import plain_fields
from perdure.submission.types import Flags

M = TypeVar("M", bound=BaseModel)
RUN = "the id of a run, a unique beginning of it, or @last; a handle has it as run.id"
EXPERIMENT = "the id of an experiment, a unique beginning of it, or @last; a handle has it as .id"


def wrong(name: str, found: object, allowed: str) -> InvalidInput:
    """The refusal of one argument."""
    told = f"{name}: found {shown(found)}; allowed: {allowed}."
    return InvalidInput(told, problems=((name, f"found {shown(found)}; allowed: {allowed}."),))


def text(name: str, value: object, *, allowed: str = "a text that is not empty") -> str:
    """An argument that is a text with something in it.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise wrong(name, value, allowed)
    return str(value)


def text_or_none(name: str, value: object) -> str | None:
    """The same where it may be left out."""
    return None if value is None else text(name, value)


def count(name: str, value: object, *, least: int) -> int:
    """An argument that is a whole number, also one of numpy's.

    Raises:
        InvalidInput: it is something else, or below `least`.
    """
    number = index(value) if isinstance(value, SupportsIndex) else None
    if number is None or isinstance(value, bool) or number < least:
        raise wrong(name, value, f"a whole number of at least {least}")
    return number


def made(kind: type[M], fields: Mapping[str, object], *, heading: str) -> M:
    """A model of these fields, such as a message to a run.

    Args:
        kind: the model.
        fields: its fields as a program has them.
        heading: what it is, at the beginning of an error about values that JSON cannot say.

    Raises:
        InvalidInput: a field is wrong; the message names all that are.
    """
    told = plain_fields(fields, heading=heading)
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        problems = problems_of(error, told)
        raise InvalidInput(
            "; ".join(str(problem).rstrip(".") for problem in problems) + ".",
            problems=((problem.path, problem.words) for problem in problems),
        ) from None


def flags_of(given: object) -> Flags:
    """The flags; others than `Flags` are refused, since a mapping is a task of its own.

    Raises:
        InvalidInput: it is something else.
    """
    if given is None or isinstance(given, Flags):
        return given or Flags()
    raise wrong("flags", given, "perdure.Flags(…); or write the fields into the task")


class Opening:
    """Whether a connection is open, for the process and the event loop that opened it.

    Make it where the connection is opened. Locks and pools of stores belong to one event loop; a
    process that was forked off shares sockets with the other one, but has none of its threads.
    """

    def __init__(self) -> None:
        self._closed = False
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """From now on nothing of it is served."""
        self._closed = True

    def check(self) -> None:
        """Raise `NotAllowed` once it is closed, and where it was not opened."""
        self.check_place()
        if self._closed:
            raise NotAllowed(
                "This client is closed.", cure="Open another one: await Client.connect()."
            )

    def check_place(self) -> None:
        """Raise `NotAllowed` in another process, and in another event loop."""
        if self._process != os.getpid():
            raise NotAllowed(
                f"This client was opened by process {self._process}, and this is process "
                f"{os.getpid()}. Connections do not survive a fork.",
                cure="Open a client in each process, after the fork: await Client.connect().",
            )
        if self._loop is not _running_loop():
            raise NotAllowed(
                "This client was opened in another event loop.",
                cure="Open a client in each event loop (await Client.connect()), or give the call "
                "to the loop of this one: asyncio.run_coroutine_threadsafe(call, loop).",
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class WhileOpen:
    """A part of a connection; its methods are reached only where and while that is open."""

    def __init__(self, part: object, opening: Opening) -> None:
        self._part = part
        self._opening = opening

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        self._opening.check()
        return getattr(self._part, name)


def not_pickled(self: object) -> NoReturn:
    """Refuse to pickle or copy what holds connections of its process."""
    raise TypeError(
        f"A {type(self).__name__} holds connections of this process and cannot be pickled or "
        "copied. Hand over the id of the run, and connect and attach where it arrives."
    )
