"""Shows what models say while they say it, to the end of the run."""

from perdure.domain.run.live_text import LivePart
from perdure.domain.run.result import exit_code
from perdure.interfaces.cli.follow import lasting_events, show_result
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, line
from perdure.interfaces.cli.waits import questions_told
from perdure.interfaces.formatting import model_name, plural
from perdure.interfaces.live_text import parts
from perdure.interfaces.services import Services


async def follow_text(session: Session, services: Services, run: str) -> int:
    """Print text as it arrives, then the result; return the exit code."""
    session.following = run
    gateway = services.gateway
    told = lasting_events(session, gateway, run, on_trouble=session.output.warn)
    printed = _Printed(session.output)
    async with questions_told(session, gateway, run, own=True):
        async for part in parts(services.live(), run, told):
            printed.take(part)
        printed.close()
        result = await gateway.result(run, wait=True)
    session.following = None
    await show_result(session, services, result)
    return exit_code(result.outcome)


class _Printed:
    """Prints calls that speak in turns, with a heading whenever the speaker changes."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._speaking: tuple[str, int] | None = None
        self._open_line = False

    def take(self, part: LivePart) -> None:
        if self._output.as_json:
            self._output.emit(part)
            return
        speaker = (part.call, part.attempt)
        if part.type == "call_restarted":
            self._head(part, "the call is made again, and its text begins anew")
        elif part.type == "call_started" or (part.text and speaker != self._speaking):
            self._head(part)
        if part.skipped:
            self._note(f"{plural(part.skipped, 'character')} left out")
        if part.text:
            self._output.go_on(part.text)
            self._open_line = not part.text.endswith("\n")
            self._speaking = speaker
        # The end of another call must not break the line of the one that speaks.
        if part.type == "call_ended" and speaker == self._speaking:
            self.close()

    def close(self) -> None:
        """End an unfinished line."""
        if self._open_line:
            self._output.go_on("\n")
        self._open_line, self._speaking = False, None

    def _head(self, part: LivePart, *more: str) -> None:
        who = part.worker or part.role
        facts = (part.run, f"iteration {part.iteration}", who, part.phase, model_name(part.model))
        self._note(" · ".join(fact for fact in (*facts, *more) if fact))
        self._speaking = part.call, part.attempt

    def _note(self, text: str) -> None:
        # `close` forgets who speaks, and a note between two pieces is no other speaker.
        speaking = self._speaking
        self.close()
        self._output.tell(line((f"[{text}]", DIM)))
        self._speaking = speaking
