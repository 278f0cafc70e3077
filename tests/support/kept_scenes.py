"""Runs whose histories are kept: people, judges, failing models, budgets, rolls, files."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_runs import answer, call, calls
from installation import Installation
from pydantic import JsonValue
from refining import (
    TONE,
    WORDS_CHECK,
    at_call,
    draft,
    drafts,
    judged,
    open_gate,
    spec,
    verdict,
    written,
)
from waiting import eventually

from perdure.domain.run.messages import AddInput, Amend, Answer, Pause, Resume, Stop
from perdure.domain.run.spec import Timing

Steer = Callable[[Installation, str], Awaitable[None]]
Script = Mapping[str, object]
OPEN = {"improvement_threshold": None}
PRICE = {"input_per_million": 3.0, "output_per_million": 15.0}
DONE = {"text": "All done."}
WRITING = {"access": "full", "allow": ["fs.write", "fs.list"]}


async def watch(site: Installation, run: str) -> None:
    """Let it run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A run with its script, who steers it, and how it ends; `chain` plays several models."""

    spec: Mapping[str, object]
    script: Script
    ends: tuple[str, str]
    steer: Steer = watch
    chain: Sequence[str] = ()
    timing: Timing = field(default_factory=lambda: Timing(heartbeat=2.0))

    async def start(self, site: Installation, name: str) -> str:
        """Start the run under the scene's name."""
        if not self.chain:
            return await site.start(self.spec, self.script, run_id=name)
        model = await site.script(self.script)
        models = {"executor": [f"{model}#{label}" for label in self.chain]}
        return await site.start({**self.spec, "models": models}, run_id=name)


def section(name: str, word: str) -> dict[str, object]:
    """A check on one section: it holds the word."""
    check = {"check": "contains", "all": [word]}
    return {"name": f"of {name}", "part": name, "evaluator": check}


def agent(**more: object) -> dict[str, object]:
    """An agent run that looks around."""
    given = {"kind": "agent", "goal": "look", "tools": {"access": "readonly"}, "learn": False}
    return {**given, **more}


def listing(*places: str) -> Script:
    """A reply that lists folders, all at once."""
    return calls(*(call("fs.list", path=place) for place in places))


def writing(path: str) -> Mapping[str, object]:
    """A call that writes a file."""
    return call("fs.write", path=path, content=f"this is {path}\n", expected_hash="absent")


async def approve(site: Installation, run: str) -> None:
    """Allow what is asked first, deny what is asked next."""
    await answer(site, run, await open_gate(site, run), "approve")
    await eventually(lambda: _other_gate(site, run, "g1"))
    await answer(site, run, await open_gate(site, run), "deny", "one is enough")


async def _other_gate(site: Installation, run: str, known: str) -> bool:
    gates = (await site.status(run)).gates
    return bool(gates) and gates[0].id != known


async def say_tea(site: Installation, run: str) -> None:
    """Answer a question of the model."""
    await answer(site, run, await open_gate(site, run), "tea", "with milk")


async def go_on(site: Installation, run: str) -> None:
    """Answer an escalation with guidance."""
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Answer(gate=gate.id, choice="continue", text="use more trees"))


async def raise_budget(site: Installation, run: str) -> None:
    """Raise what is spent, and say so."""
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Amend(budget={"model_calls": 5}, by="ann"))
    await site.gateway.verb(run, Answer(gate=gate.id, choice="raise"))


async def stop_in_second(site: Installation, run: str) -> None:
    """Stop at once while the second draft is being written."""
    await at_call(site, run, "executor", 2)
    await site.gateway.verb(run, Stop(mode="now", by="ann"))


async def amend_rubric(site: Installation, run: str) -> None:
    """Replace the rubric while the second draft is being written."""
    only: JsonValue = {"name": "pine", "evaluator": {"check": "contains", "all": ["pine", "larch"]}}
    await at_call(site, run, "executor", 2)
    await site.gateway.verb(run, Amend(rubric=[only], guidance="prefer conifers", by="ann"))


async def add_input(site: Installation, run: str) -> None:
    """Say something while the judge reads."""
    await at_call(site, run, "evaluator", 1)
    await site.gateway.verb(run, AddInput(text="it is for children", by="ann"))


async def pause_and_resume(site: Installation, run: str) -> None:
    """Pause during the first call, and go on once the run stands still."""
    await in_call(site, run)
    await site.gateway.verb(run, Pause(by="ann"))
    await eventually(lambda: at_rest(site, run))
    await site.gateway.verb(run, Resume(by="ann"))


async def stop_gracefully(site: Installation, run: str) -> None:
    """Stop during the first call, which is allowed to finish."""
    await in_call(site, run)
    await site.gateway.verb(run, Stop(by="ann"))


async def in_call(site: Installation, run: str) -> None:
    """Wait until a model call is in flight."""

    async def calling() -> bool:
        step = (await site.status(run)).step
        return step is not None and "turn" in step.what

    await eventually(calling)


async def at_rest(site: Installation, run: str) -> bool:
    status = await site.status(run)
    return status.lifecycle == "paused" and status.step is None


def line(part: int, word: str) -> dict[str, object]:
    """A check on one line."""
    return {
        "name": f"line {part}",
        "part": part,
        "hint": f"Use the word {word}.",
        "evaluator": {"check": "contains", "all": [word]},
    }


BLUNT = {
    "severity": "important",
    "dimension": "tone",
    "title": "reads like a list",
    "fix": "warm up",
}


SCENES: Mapping[str, Scene] = {
    "agent_with_tools": Scene(
        spec=agent(tools=WRITING),
        script={
            "price": PRICE,
            "replies": [
                calls(*(writing(f"{name}.md") for name in ("a", "b", "c", "d", "e"))),
                listing("."),
                listing("."),
                DONE,
            ],
        },
        ends=("accepted", "text_answer"),
    ),
    "agent_approval_answered": Scene(
        spec=agent(tools={**WRITING, "approve": ["fs.write"]}),
        script={"replies": [calls(writing("a.md"), writing("b.md")), DONE]},
        ends=("accepted", "text_answer"),
        steer=approve,
    ),
    "agent_question_answered": Scene(
        spec=agent(),
        script={
            "replies": [
                calls(
                    call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"]),
                    call("fs.list", path="."),
                ),
                DONE,
            ]
        },
        ends=("accepted", "text_answer"),
        steer=say_tea,
    ),
    "agent_failover": Scene(
        spec=agent(),
        script={
            "replies": [
                {"error": {"status": 400}, "when": {"model": "a"}},
                {"error": "refusal", "when": {"model": "b"}},
                {**listing("."), "when": {"model": "c"}},
                {**DONE, "when": {"model": "c"}},
            ]
        },
        ends=("accepted", "text_answer"),
        chain=("a", "b", "c"),
    ),
    "agent_budget_end": Scene(
        spec=agent(budget={"tool_calls": 3, "model_calls": 3}),
        script={"price": PRICE, "replies": [listing(".", "./x"), listing("./y", "./z"), DONE]},
        ends=("out_of_budget", "tool_calls"),
    ),
    "agent_paused_resumed": Scene(
        spec=agent(),
        script={"replies": [{**listing("."), "delay_s": 1.0}, DONE]},
        ends=("accepted", "text_answer"),
        steer=pause_and_resume,
    ),
    "agent_stopped_gracefully": Scene(
        spec=agent(),
        script={"replies": [{**listing("."), "delay_s": 1.0}, DONE]},
        ends=("stopped", "stopped"),
        steer=stop_gracefully,
    ),
    "agent_deadline": Scene(
        spec=agent(budget={"wall_time": 2.0}),
        script={"replies": [{**DONE, "delay_s": 20}]},
        ends=("deadline", "wall_time"),
    ),
    "agent_failed": Scene(
        spec=agent(),
        script={"replies": [{"error": {"status": 400}}]},
        ends=("failed", "model_error"),
    ),
    "agent_rolled": Scene(
        spec=agent(),
        script={
            "price": PRICE,
            "replies": [*(listing(f"./{n}", f"./{n}/x") for n in range(6)), DONE],
        },
        ends=("accepted", "text_answer"),
        timing=Timing(heartbeat=2.0, roll_events=30),
    ),
    "refine_accepted_with_judge": Scene(
        spec=spec([WORDS_CHECK, TONE], quality_threshold=0.8, max_iterations=4, **OPEN),
        script={
            "price": PRICE,
            "replies": [
                *written(draft(0.5, "a"), draft(0.6, "b"), draft(0.8, "c")),
                *judged(verdict(0.5, BLUNT), "I like it.", verdict(0.6), verdict(0.8)),
            ],
        },
        ends=("accepted", "quality_met"),
    ),
    "refine_input_read": Scene(
        spec=spec([TONE], **OPEN),
        script={
            "replies": [
                *written("a", "b"),
                *({**entry, "delay_s": 1.5} for entry in judged(verdict(0.9))),
                *judged(verdict(0.9)),
            ]
        },
        ends=("accepted", "quality_met"),
        steer=add_input,
    ),
    "refine_just_enough": Scene(
        spec=spec(quality_threshold=0.8, **OPEN),
        script={"replies": drafts(0.5, 0.8)},
        ends=("accepted", "quality_met"),
    ),
    "refine_low_at_the_limit": Scene(
        spec=spec(max_iterations=2, escalate_below=0.4, **OPEN),
        script={"replies": drafts(0.5, 0.3)},
        ends=("best_effort", "max_iterations"),
    ),
    "refine_regression_abort": Scene(
        spec=spec(max_iterations=4, **OPEN),
        script={"replies": drafts(0.6, 0.7, 0.3)},
        ends=("regressed", "regression"),
    ),
    "refine_plateau": Scene(
        spec=spec(pattern="improvement", max_iterations=9),
        script={"replies": drafts(0.5, 0.7, 0.6)},
        ends=("best_effort", "plateau"),
    ),
    "refine_parts_lines": Scene(
        spec=spec(
            [line(1, "oak"), line(2, "elm"), line(3, "ash")],
            output={"parts": "lines"},
            quality_threshold=1.0,
            max_iterations=4,
        ),
        script={
            "replies": [
                {"text": text}
                for text in ("an oak\nnone\nnothing", "an elm", "still wrong", "an ash")
            ]
        },
        ends=("accepted", "quality_met"),
    ),
    "refine_recalled_planned_learned": Scene(
        spec={**spec([TONE], plan="on", **OPEN), "recall": True, "learn": True},
        script={
            "replies": [
                {
                    "when": {"role": "planner"},
                    "json": {"steps": [{"title": "List", "acceptance": "ten"}], "risks": []},
                },
                *written("a", "b"),
                *judged(verdict(0.5, BLUNT), verdict(0.9, resolved=["F1"])),
            ]
        },
        ends=("accepted", "quality_met"),
    ),
    "refine_question": Scene(
        spec={**spec([TONE]), "goal": "Which tree is the oldest?"},
        script={"replies": written("The pine.")},
        ends=("accepted", "read_only"),
    ),
    "refine_strategies": Scene(
        spec=spec(pattern="strategies", strategies=["detailed", "by keywords", "by sections"]),
        script={"replies": [{"error": "refusal"}, *drafts(0.4, 0.9)]},
        ends=("accepted", "strategy_succeeded"),
    ),
    "refine_parts_sections": Scene(
        spec=spec(
            [section("Oak", "oak"), section("Elm", "elm")],
            output={"parts": "sections"},
            quality_threshold=1.0,
            max_iterations=4,
        ),
        script={"replies": [{"text": t} for t in ("## Oak\nAn oak.\n## Elm\nnone", "An elm.")]},
        ends=("accepted", "quality_met"),
    ),
    "refine_escalated": Scene(
        spec=spec(escalate_below=0.3),
        script={"replies": drafts(0.2, 0.9)},
        ends=("accepted", "quality_met"),
        steer=go_on,
    ),
    "refine_budget_raised": Scene(
        spec={
            **spec(max_iterations=2, **OPEN),
            "budget": {"model_calls": 1, "on_exhausted": "ask"},
        },
        script={"price": PRICE, "replies": drafts(0.5, 0.6)},
        ends=("best_effort", "max_iterations"),
        steer=raise_budget,
    ),
    "refine_stopped_now": Scene(
        spec=spec(**OPEN),
        script={"replies": [*drafts(0.5), {"text": draft(0.6, "b"), "delay_s": 60}]},
        ends=("stopped", "stopped"),
        steer=stop_in_second,
    ),
    "refine_amended_rubric": Scene(
        spec=spec(**OPEN),
        script={
            "replies": [
                *drafts(0.5),
                {"text": f"{draft(0.6, 'b')} pine", "delay_s": 1.5},
                *written("pine"),
            ]
        },
        ends=("best_effort", "max_iterations"),
        steer=amend_rubric,
    ),
    "refine_files_rolled": Scene(
        spec={**spec(max_iterations=3, **OPEN), "tools": WRITING},
        script={
            "replies": [
                calls(writing("a.md")),
                {"text": draft(0.5, "a")},
                calls(writing("b.md")),
                {"text": draft(0.6, "b")},
                {"text": draft(0.7, "c")},
            ]
        },
        ends=("best_effort", "max_iterations"),
        timing=Timing(heartbeat=2.0, roll_events=40),
    ),
}
