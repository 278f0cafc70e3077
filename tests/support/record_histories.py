"""Records the histories that every later version must still replay: `make record`."""

import asyncio
import base64
import json
import socket
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from installation import Installation, dev_server, eventually, installation
from invariants import executions

from perdure.compose import VERSION
from perdure.domain.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Pause,
    Resume,
    Stop,
)
from perdure.domain.run import Timing

FOLDER = Path(__file__).parents[1] / "replay" / "histories"
LIST = {"name": "fs.list", "arguments": {"path": "."}}
FIND = {"name": "fs.list", "arguments": {"path": "../."}}
TWO = {"tool_calls": [LIST, FIND]}
SLOW = {**TWO, "delay_s": 1.0}
DONE = {"text": "All done."}
WORDS = [{"name": "words", "evaluator": {"check": "contains", "all": ["ant", "bee", "cat", "dog"]}}]
LINES = [
    {"name": "first", "part": 1, "evaluator": {"check": "contains", "all": ["ant"]}},
    {"name": "second", "part": 2, "evaluator": {"check": "contains", "all": ["bee"]}},
]
Steps = Callable[[Installation, str], Awaitable[None]]


def _agent(**changes: object) -> dict[str, object]:
    return {"kind": "agent", "goal": "look", "tools": {"access": "readonly"}, **changes}


def _refine(rubric: object = WORDS, **changes: object) -> dict[str, object]:
    return {"kind": "refine", "goal": "animals", "rubric": rubric, **changes}


async def nothing(site: Installation, run: str) -> None:
    """Only watch."""


def send(*messages: AnyMessage) -> Steps:
    """Wait for the first model call, then send messages in order."""

    async def steps(site: Installation, run: str) -> None:
        await eventually(lambda: _calling(site, run))
        for message in messages:
            if isinstance(message, Answer):
                await eventually(lambda: _asking(site, run))
            await site.gateway.verb(run, message)

    return steps


async def _calling(site: Installation, run: str) -> bool:
    step = (await site.status(run)).step
    return step is not None and "turn" in step.what


async def _asking(site: Installation, run: str) -> bool:
    return bool((await site.status(run)).gates)


SCENES: dict[str, tuple[dict[str, object], list[dict[str, object]], Steps]] = {
    "agent-tools": (_agent(), [TWO, TWO, DONE], nothing),
    "agent-rolls": (_agent(), [TWO, TWO, DONE], nothing),
    "agent-pause": (_agent(), [SLOW, DONE], send(Pause(by="me"), Resume(by="me"))),
    "agent-gate": (
        _agent(),
        [SLOW, DONE],
        send(Escalate(note="look", by="me"), Answer(gate="g1", choice="continue", text="go")),
    ),
    "agent-guided": (
        _agent(),
        [SLOW, TWO, DONE, DONE],
        send(Amend(guidance="be brief"), AddInput(text="and kind")),
    ),
    "agent-stop-now": (_agent(), [{**DONE, "delay_s": 20}], send(Stop(mode="now"))),
    "agent-stop-gracefully": (_agent(), [SLOW, DONE], send(Stop())),
    "agent-deadline": (
        _agent(budget={"wall_time": 2.0}),
        [{**DONE, "delay_s": 20}],
        nothing,
    ),
    "agent-budget": (
        _agent(budget={"model_calls": 2}),
        [TWO, TWO, DONE, DONE],
        nothing,
    ),
    "agent-retry-fails": (_agent(), [{"error": {"status": 400}}], nothing),
    "refine-accepted": (
        _refine(refine={"quality_threshold": 1.0}),
        [{"text": "ant bee"}, {"text": "ant bee cat"}, {"text": "ant bee cat dog"}],
        nothing,
    ),
    "refine-regressed": (
        _refine(refine={"quality_threshold": 1.0}),
        [{"text": "ant bee cat"}, {"text": "nothing"}],
        nothing,
    ),
    "refine-parts": (
        _refine(LINES, refine={"quality_threshold": 1.0, "output": {"parts": "lines"}}),
        [{"text": "ant\nwasp"}, {"text": "bee"}],
        nothing,
    ),
}


async def record(name: str, site: Installation) -> dict[str, str]:
    """Play one scene, and return the history of each execution without traces of this machine."""
    spec, replies, steps = SCENES[name]
    run = await site.start(spec, {"replies": replies}, run_id=name)
    await steps(site, run)
    result = await site.gateway.result(run)
    print(name, result.outcome, result.reason, result.iteration_count)
    histories = await executions(site, run)
    return {
        f"{VERSION}-{name}-{number}": _scrubbed(json.loads(history.to_json()), str(site.home))
        for number, history in enumerate(histories)
    }


def _scrubbed(history: dict[str, object], home: str) -> str:
    names = {home: "/perdure", socket.gethostname(): "host"}

    def clean(value: object) -> object:
        match value:
            case dict():
                kept = {key: item for key, item in value.items() if key != "stackTrace"}
                return {key: (_data if key == "data" else clean)(kept[key]) for key in kept}
            case list():
                return [clean(item) for item in value]
            case str():
                return _replaced(value)
            case _:
                return value

    def _replaced(text: str) -> str:
        for name, plain in names.items():
            text = text.replace(name, plain)
        return text

    def _data(value: object) -> object:
        if not isinstance(value, str):
            return clean(value)
        text = base64.b64decode(value).decode("utf-8", "surrogateescape")
        return base64.b64encode(_replaced(text).encode("utf-8", "surrogateescape")).decode()

    return json.dumps(clean(history), separators=(",", ":")) + "\n"


async def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with dev_server() as server:
        address = server.client.service_client.config.target_host
        for name in SCENES:
            timing = Timing(heartbeat=2.0, roll_events=1 if "rolls" in name else 2_000)
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder) / "home"
                async with installation(home, address, timing=timing) as site, site.worker():
                    recorded = await record(name, site)
            for file, content in recorded.items():
                (FOLDER / f"{file}.json").write_text(content)


if __name__ == "__main__":
    asyncio.run(main())
