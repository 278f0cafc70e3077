"""One run of each state that a person meets in the Temporal Web UI, played by scripted models."""

from collections.abc import Mapping
from dataclasses import dataclass

from installation import Installation
from waiting import eventually

PRICE = {"input_per_million": 3.0, "output_per_million": 15.0}
LONG_S = 600
RUBRIC = [
    {"name": "mentions", "weight": 2, "evaluator": {"check": "contains", "all": ["steel", "soap"]}},
    {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 40}},
    {"name": "tone", "description": "warm and concrete", "evaluator": {"judge": {}}},
]
FIRST = "A bottle that keeps drinks cold. Made from recycled steel, ready for any day."
SECOND = "Cold water on every hike: recycled steel, light in the bag, clean with a drop of soap."


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenes:
    """The ids of the runs, each in the state of its name."""

    accepted: str
    failed: str
    approval: str
    escalation: str
    paused: str
    running: str

    @property
    def all(self) -> tuple[str, ...]:
        """Every run."""
        return (
            self.accepted, self.failed, self.approval, self.escalation, self.paused, self.running,
        )  # fmt: skip


async def play(site: Installation) -> Scenes:
    """Start every run and wait until each has reached its state."""
    accepted = await _start(site, _refine("Write a product text for a steel bottle"), _accepted())
    failed = await _start(site, _agent("Summarise the incident of Monday"), _failing())
    approval = await _start(site, _writing("Write the release notes to notes.md"), _asking())
    escalation = await _start(
        site, _refine("Write a slogan for a steel bottle", escalate_below=0.6), _poor()
    )
    paused = await _start(site, _agent("Answer the letter of a customer"), _slow_then_done())
    running = await _start(site, _refine("Write a care guide for a steel bottle"), _running())
    await eventually(lambda: _in_step(site, paused))
    await site.handle(paused).signal("pause", {"by": "maria"})
    scenes = Scenes(
        accepted=accepted,
        failed=failed,
        approval=approval,
        escalation=escalation,
        paused=paused,
        running=running,
    )
    await _reached(site, scenes)
    return scenes


async def end(site: Installation, scenes: Scenes) -> None:
    """Stop what still runs."""
    for run in scenes.all:
        if (await site.status(run)).outcome is None:
            await site.handle(run).signal("stop", {"mode": "now"})
            await eventually(lambda name=run: _ended(site, name))


async def _reached(site: Installation, scenes: Scenes) -> None:
    await eventually(lambda: _ended(site, scenes.accepted))
    await eventually(lambda: _ended(site, scenes.failed))
    for run in (scenes.approval, scenes.escalation):
        await eventually(lambda name=run: _lifecycle_is(site, name, "waiting"))
    await eventually(lambda: _idle_and_paused(site, scenes.paused))
    await eventually(lambda: _evaluating_again(site, scenes.running))


async def _start(
    site: Installation, spec: Mapping[str, object], script: Mapping[str, object]
) -> str:
    return await site.start(spec, {"price": PRICE, **script})


async def _in_step(site: Installation, run: str) -> bool:
    step = (await site.status(run)).step
    return step is not None and step.what.startswith("executor")


async def _lifecycle_is(site: Installation, run: str, wanted: str) -> bool:
    return (await site.status(run)).lifecycle == wanted


async def _ended(site: Installation, run: str) -> bool:
    return (await site.status(run)).outcome is not None


async def _idle_and_paused(site: Installation, run: str) -> bool:
    status = await site.status(run)
    return status.lifecycle == "paused" and status.step is None


async def _evaluating_again(site: Installation, run: str) -> bool:
    status = await site.status(run)
    return status.iteration == 2 and status.step is not None


def _refine(goal: str, **settings: object) -> dict[str, object]:
    return {
        "kind": "refine",
        "goal": goal,
        "rubric": RUBRIC,
        "recall": False,
        "learn": False,
        "refine": {"max_iterations": 3, "plan": "off", "classify": "off", **settings},
        "metadata": {"label": "bottle"},
    }


def _agent(goal: str) -> dict[str, object]:
    return {"kind": "agent", "goal": goal, "recall": False, "learn": False}


def _writing(goal: str) -> dict[str, object]:
    tools = {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]}
    return {**_agent(goal), "tools": tools}


def _verdict(score: float, gap: str) -> dict[str, object]:
    return {
        "when": {"role": "evaluator"},
        "json": {"dimensions": [{"name": "tone", "score": score, "gap": gap}], "findings": []},
        "usage": {"input_tokens": 900, "output_tokens": 80},
    }


def _draft(text: str, **more: object) -> dict[str, object]:
    usage = {"input_tokens": 1_200, "output_tokens": 300}
    return {"when": {"role": "executor"}, "text": text, "usage": usage, **more}


def _accepted() -> dict[str, object]:
    return {
        "replies": [
            _draft(FIRST),
            _verdict(0.6, "stiff"),
            _draft(SECOND),
            _verdict(0.9, "could name a colour"),
        ]
    }


def _failing() -> dict[str, object]:
    return {"replies": [{"error": {"status": 401, "message": "invalid x-api-key"}}]}


def _asking() -> dict[str, object]:
    content = "# 2.4\n- faster start\n"
    arguments = {"path": "notes.md", "content": content, "expected_hash": "absent"}
    return {
        "replies": [
            {"tool_calls": [{"name": "fs.write", "arguments": arguments}]},
            {"text": "The notes are in notes.md."},
        ]
    }


def _poor() -> dict[str, object]:
    return {
        "replies": [
            _draft("Buy it now."),
            _verdict(0.2, "says nothing about the bottle"),
            _draft(SECOND),
            _verdict(0.9, "could name a colour"),
        ]
    }


def _slow_then_done() -> dict[str, object]:
    listing = {"name": "fs.list", "arguments": {"path": "."}}
    return {
        "replies": [
            {"tool_calls": [listing], "delay_s": 2},
            {"text": "Dear customer, thank you for your letter."},
        ]
    }


def _running() -> dict[str, object]:
    return {"replies": [_draft(FIRST), _verdict(0.6, "stiff"), _draft(SECOND, delay_s=LONG_S)]}
