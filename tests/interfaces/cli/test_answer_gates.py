"""Questions answered where they appear, on a real pseudo-terminal."""

import os
import pty
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import TextIO

import pytest
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.child_questions import Question
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.interfaces.cli.answer_gates import LINE_BYTES, Asking, asking_on, keyboard_of
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.session import Session
from tests.interfaces.cli.memory import Installation, Terminal
from tests.interfaces.cli.samples import RUN, gate, status

CALL = gate()
TEA = gate(
    id="g2", kind="question", prompt="Which tea?", choices=(), free_text=True, args_hash=None
)


@dataclass
class Person:
    """Somebody at a terminal: types, and reads what is shown."""

    keys: int
    perdure: Installation
    asking: Asking

    def types(self, text: str) -> None:
        os.write(self.keys, text.encode())

    async def looks(self, *gates: Gate) -> None:
        """What the following of a run does once a second."""
        await self.asking.look(status(gates=gates))

    async def sees(self, text: str, *, times: int = 1) -> None:
        await eventually(lambda: self.perdure.out.count(text) >= times)

    async def is_done(self, *gates: Gate) -> None:
        """The prompt is gone, as it was answered or put off."""

        async def gone() -> bool:
            await self.looks(*gates)
            return not self.asking.open

        await eventually(gone)

    @property
    def said(self) -> list[tuple[str, str | None, str | None, str | None]]:
        sent = [message for _, message in self.perdure.gateway.sent]
        answers = [message for message in sent if isinstance(message, Answer)]
        assert sent == answers
        return [(one.gate, one.choice, one.text, one.args_hash) for one in answers]


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as stream:
        yield ours, stream
    os.close(ours)


@pytest.fixture
async def person(perdure: Installation, terminal: tuple[int, TextIO]) -> AsyncIterator[Person]:
    keys, perdure.stdin = terminal
    perdure.stdout, perdure.stderr = Terminal(), Terminal()
    context = perdure.context()
    output = Output(context.stdout, context.stderr)
    session = Session(context, output)
    async with context.connect(start=False, on_progress=lambda _: None) as services:
        with output.live("the picture") as picture:
            async with asking_on(session, services, picture) as asking:
                assert isinstance(asking, Asking)
                yield Person(keys, perdure, asking)


async def test_an_approval_is_bound_to_what_was_shown(person: Person) -> None:
    await person.looks(CALL)
    await person.sees("[a]pprove  [d]eny  [t]ext")
    assert "May fs.write change README.md?" in person.perdure.out
    person.types("a\n")
    await person.is_done(CALL)
    assert person.said == [(CALL.name, "approve", None, CALL.args_hash)]


async def test_keys_typed_before_the_question_answer_nothing(person: Person) -> None:
    person.types("a\na")
    await person.looks(CALL)
    await person.sees("[a]pprove")
    person.types("d\n")
    await person.is_done(CALL)
    assert [choice for _, choice, *_ in person.said] == ["deny"]


async def test_words_go_with_a_denial(person: Person) -> None:
    await person.looks(CALL)
    await person.sees("[a]pprove")
    person.types("t\n")
    await person.sees("deny, because >")
    person.types("not this file\n")
    await person.is_done(CALL)
    assert person.said == [(CALL.name, "deny", "not this file", CALL.args_hash)]


async def test_what_is_unclear_is_asked_again(person: Person) -> None:
    await person.looks(CALL)
    await person.sees("[a]pprove")
    person.types("yes, go\n")
    await person.sees("Type a, d or t", times=1)
    await person.sees("[a]pprove", times=2)
    assert person.said == []
    person.types("approve\n")
    await person.is_done(CALL)
    assert [choice for _, choice, *_ in person.said] == ["approve"]


async def test_a_question_answered_elsewhere_goes_away(person: Person) -> None:
    await person.looks(CALL)
    await person.sees("[a]pprove")
    person.types("a")
    await person.looks(TEA)
    await person.sees("was settled elsewhere")
    await person.sees("your answer in words")
    person.types("green\n")
    await person.is_done(TEA)
    assert person.said == [("g2", None, "green", None)], "half a line belongs to its question"


async def test_an_answer_never_reaches_a_question_with_other_arguments(person: Person) -> None:
    await person.looks(CALL)
    await person.sees("[a]pprove")
    other = gate(args_hash="cd" * 32)
    await person.looks(other)
    await person.sees(other.name)
    person.types("a\n")
    await person.is_done(other)
    assert person.said == [(other.name, "approve", None, other.args_hash)]


@pytest.mark.parametrize("keys", ["\n", "\x04"], ids=["Enter", "Ctrl-D"])
async def test_a_question_that_is_put_off_stays_open(person: Person, keys: str) -> None:
    await person.looks(CALL)
    await person.sees("[a]pprove")
    person.types(keys)
    await person.is_done(CALL)
    await person.looks(CALL)
    assert not person.asking.open, "it is not asked twice"
    assert person.said == []
    assert f"perdure answer {RUN}:{CALL.name} CHOICE  (approve, deny)" in person.perdure.out


async def test_a_refused_answer_is_told_and_asked_again(person: Person) -> None:
    person.perdure.gateway.refusals[RUN] = NotAllowed("gate g1 asks about other arguments")
    await person.looks(CALL)
    await person.sees("[a]pprove")
    person.types("a\n")
    await eventually(lambda: "other arguments" in person.perdure.err)
    await person.sees("[a]pprove", times=2)
    assert person.said == []


async def test_all_of_what_is_approved_is_shown_first(person: Person) -> None:
    whole = "\n".join(f"+ line {number}" for number in range(400))
    person.perdure.blobs.texts["sha256:" + "5" * 64] = whole
    long = gate(
        prompt="Approve fs.write?\n+ line 0 [… cut]", details=BlobRef(hash="sha256:" + "5" * 64)
    )
    await person.looks(long)
    await person.sees("[a]pprove")
    shown = person.perdure.out
    assert all(f"+ line {number}\n" in shown for number in range(400))
    assert shown.index("+ line 399") < shown.index("[a]pprove")


async def test_nobody_approves_what_cannot_be_read(person: Person) -> None:
    lost = gate(details=BlobRef(hash="sha256:" + "6" * 64))
    await person.looks(lost)
    await person.is_done(lost)
    assert "There is no blob" in person.perdure.err
    assert "[a]pprove" not in person.perdure.out


async def test_a_line_that_the_terminal_cut_is_no_answer(person: Person) -> None:
    await person.looks(TEA)
    await person.sees("your answer in words")
    person.types("x" * (LINE_BYTES + 500))
    person.types("\n")
    await person.sees("no line of this length")
    await person.sees("your answer in words", times=2)
    assert person.said == []


async def test_the_picture_makes_room(person: Person) -> None:
    await person.sees("the picture")
    await person.looks(CALL)
    await person.sees("[a]pprove")
    shown = len(person.perdure.out)
    person.types("a\n")
    await person.is_done(CALL)
    asked, _, _ = person.perdure.out[shown:].partition("the picture")
    assert "approve" in asked
    assert "\x1b[1A" not in asked, "nothing that was asked is drawn over"


def test_a_pipe_is_no_keyboard(perdure: Installation) -> None:
    assert keyboard_of(None) is None
    assert keyboard_of(StringIO("a\n")) is None
    perdure.stdin = StringIO("a\n")
    perdure.gateway.statuses[RUN] = status(lifecycle="waiting", gates=(CALL,))
    assert perdure.run("watch", RUN, terminal=True) == 0
    assert "[a]pprove" not in perdure.out
    assert perdure.gateway.sent == []


def test_what_a_run_below_asks_is_shown_where_nobody_types(perdure: Installation) -> None:
    asked = Question(
        run=f"{RUN}.w1",
        path=("w1",),
        gate="g1",
        kind="question",
        prompt="Tea or coffee?",
        opened_at=TEA.opened_at,
    )
    perdure.gateway.statuses[RUN] = status(lifecycle="waiting", questions=(asked,))
    assert perdure.run("watch", RUN, terminal=True) == 0
    assert "w1 asks: " in perdure.out and "Tea or coffee?" in perdure.out
    assert f"perdure gates {RUN}.w1" in perdure.out


def test_a_program_is_never_asked(perdure: Installation, terminal: tuple[int, TextIO]) -> None:
    keys, perdure.stdin = terminal
    os.write(keys, b"a\n")
    perdure.gateway.statuses[RUN] = status(lifecycle="waiting", gates=(CALL,))
    assert perdure.run("watch", RUN, "--json", terminal=True) == 0
    assert perdure.run("watch", RUN) == 0
    assert "[a]pprove" not in perdure.out
    assert perdure.gateway.sent == []
