"""No command lets a name, a path, a label or a model's words steer the terminal."""

import re
from dataclasses import replace

import pytest

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.llm.transcript import Message, TextBlock, ToolResultBlock, ToolUseBlock
from perdure.domain.run.gates import Gate
from perdure.interfaces.services import Services
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RECORDS, RUN, event, gate, result, status

EVIL = "x\x1b]0;owned\x07\x1b[2J\x1b]52;c;b3duZWQ=\x1b\\\x9b2J\u202ey\x1b[8mhidden"
# What the console itself writes: styles, links to addresses, and moves of the live picture.
OWN = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\]8;[^\x07\x1b]*\x1b\\|\x1b\[(?:\?25[lh]|[0-9]*A|2K)|\r(?=\x1b\[2K)|[\r\n\t]"
)
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class HostileTranscripts:
    """A conversation that was written to be printed."""

    async def load(self, head: str) -> tuple[Message, ...]:
        said = TextBlock(type="text", text=EVIL)
        used = ToolUseBlock(type="tool_use", id=EVIL, name=EVIL, arguments={EVIL: EVIL})
        given = ToolResultBlock(type="tool_result", call_id="1", name=EVIL, outcome="ok", text=EVIL)
        return (Message(role="assistant", blocks=(said, used, given)),)


class HostileInstallation(Installation):
    """Every store answers with text that would steer a terminal."""

    async def _services(self, stack: object) -> Services:
        services = await super()._services(stack)  # pyright: ignore[reportArgumentType]
        return replace(services, transcripts=HostileTranscripts())  # pyright: ignore[reportArgumentType]


def hostile_gate() -> Gate:
    return gate(prompt=f"May {EVIL} change\n{EVIL}?", choices=("approve", EVIL))


@pytest.fixture
def hostile(tmp_path) -> HostileInstallation:
    """An installation whose runs are named and written by somebody hostile."""
    made = HostileInstallation(folder=tmp_path)
    step = status().step
    assert step is not None
    made.gateway.statuses = {
        RUN: status(
            goal=EVIL,
            label=EVIL,
            trouble=EVIL,
            dispatch=EVIL,
            explanation=EVIL,
            plan=(EVIL,),
            children=(EVIL,),
            refused=(EVIL,),
            parts=({"name": EVIL, "passed": True},),
            step=step.model_copy(update={"what": EVIL}),
            gates=(hostile_gate(),),
            links={"temporal": f"http://127.0.0.1/{EVIL}"},
        )
    }
    made.gateway.results = {
        RUN: result(output=EVIL, explanation=EVIL, outcome="failed", models_used=(EVIL,))
    }
    findings = [{**item, "title": EVIL, "fix": EVIL} for item in RECORDS[0].findings]
    made.gateway.iterations = (
        RECORDS[0].model_validate({**RECORDS[0].model_dump(), "findings": findings}),
        RECORDS[1],
    )
    made.gateway.happened = [
        event(1, "run_started", goal=EVIL, model=EVIL),
        event(2, "tool_finished", name=EVIL, outcome=EVIL, arguments=EVIL),
        event(3, "stage_finished", stage=EVIL, status=EVIL, text=EVIL),
        event(4, "verdict", verdict=EVIL, text=EVIL),
        event(5, "child_finished", name=EVIL, outcome=EVIL, reason=EVIL),
        event(6, "gate_opened", gate=EVIL, kind=EVIL, prompt=EVIL, choices=[EVIL]),
        event(7, "amended", by=EVIL, guidance=EVIL),
        event(8, "ended", outcome=EVIL, explanation=EVIL),
    ]
    made.gateway.trouble = EVIL
    made.blobs.texts = {f"sha256:{n:064x}": f"{EVIL} {n}\n" for n in (1, 2)}
    return made


COMMANDS = (
    ("watch", RUN),
    ("run", EVIL),
    ("status", RUN),
    ("status", EVIL),
    ("history", RUN),
    ("costs", RUN),
    ("result", RUN),
    ("list",),
    ("gates",),
    ("gates", "--full"),
    ("explain", RUN),
    ("transcript", RUN),
    ("diff", RUN),
    ("loops", "status", RUN),
    ("answer", f"{RUN}:g1", EVIL),
    ("answer", f"{RUN}:g1", "approve"),
    ("pause", RUN),
    ("logs",),
    (EVIL,),
    ("validate", EVIL),
    ("new", EVIL),
)


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: " ".join(argv).replace(EVIL, "EVIL"))
@pytest.mark.parametrize("how", ["terminal", "pipe", "json"])
def test_nothing_steers_the_terminal(
    hostile: HostileInstallation, argv: tuple[str, ...], how: str
) -> None:
    hostile.gateway.refusals[RUN] = NotAllowed(EVIL, cure=EVIL)
    hostile.run(*argv, *(["--json"] if how == "json" else []), terminal=how == "terminal")
    printed = hostile.out + hostile.err
    assert printed
    told = OWN.sub("", printed)
    assert not STEERS.search(told), f"steers: {STEERS.sub(lambda found: repr(found[0]), told)}"
    assert "\x1b[8m" not in printed, "styles of foreign text are not taken over"


def test_an_artifact_in_a_pipe_is_what_was_stored(hostile: HostileInstallation) -> None:
    assert hostile.run("artifact", RUN, f"{2:064x}") == 0
    assert hostile.out == f"{EVIL} 2\n"
