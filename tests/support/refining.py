"""Specifications, drafts and verdicts for tests of the refine loop with the scripted model."""

from collections.abc import Mapping, Sequence

from installation import Installation
from waiting import eventually

from perdure.domain.run.activity_messages import JudgeReport
from perdure.domain.run.events import Event
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import EventsQuery

WORDS = ("oak", "elm", "ash", "fir", "yew", "bay", "fig", "gum", "nut", "box")


def draft(score: float, mark: str = "") -> str:
    """A text that the rubric `words` scores as `score`, a tenth at a time."""
    return " ".join((*WORDS[: round(score * 10)], mark)).strip() or "nothing"


def drafts(*scores: float) -> list[dict[str, object]]:
    """Script entries of drafts with these scores, each a different text."""
    return [{"text": draft(score, f"number{n}")} for n, score in enumerate(scores, start=1)]


WORDS_CHECK: dict[str, object] = {
    "name": "words",
    "evaluator": {"check": "contains", "all": list(WORDS)},
}
TONE: dict[str, object] = {
    "name": "tone",
    "description": "warm and concrete",
    "evaluator": {"judge": {}},
}


def spec(rubric: Sequence[object] = (WORDS_CHECK,), /, **refine: object) -> dict[str, object]:
    """A refine run without memory and plan; keywords are its settings."""
    return {
        "kind": "refine",
        "goal": "Name ten trees.",
        "rubric": list(rubric),
        "recall": False,
        "learn": False,
        "refine": {"plan": "off", **refine},
    }


def verdict(
    score: float, *findings: Mapping[str, object], resolved: Sequence[str] = (), gap: str = "stiff"
) -> dict[str, object]:
    """A judge's reply on the dimension `tone`."""
    return {
        "dimensions": [{"name": "tone", "score": score, "gap": gap if score < 1 else ""}],
        "findings": list(findings),
        "resolved": list(resolved),
    }


def judged(*verdicts: dict[str, object] | str) -> list[dict[str, object]]:
    """Script entries of a judge: structured verdicts, or plain text."""
    when = {"role": "evaluator"}
    return [
        {"when": when, "text": said} if isinstance(said, str) else {"when": when, "json": said}
        for said in verdicts
    ]


def written(*texts: str) -> list[dict[str, object]]:
    """Script entries of the executor."""
    return [{"when": {"role": "executor"}, "text": text} for text in texts]


async def events(site: Installation, run: str) -> list[Event]:
    """All events that the run still holds."""
    return await site.handle(run).query("events", EventsQuery(since=0), result_type=list[Event])  # type: ignore[return-value]


async def prompt_of(site: Installation, transcript: str | None) -> list[tuple[str, str]]:
    """Role and text of the messages in a stored transcript."""
    assert transcript is not None
    messages = await site.parts.stores.transcripts.load(transcript)
    return [(message.role, message.text) for message in messages]


async def open_gate(site: Installation, run: str) -> Gate:
    """The run's open question, once it has one."""

    async def asks() -> bool:
        return bool((await site.status(run)).gates)

    await eventually(asks)
    return (await site.status(run)).gates[0]


async def at_call(site: Installation, run: str, role: str, iteration: int) -> None:
    """Wait until a model call of this role is in flight in this iteration."""

    async def calling() -> bool:
        status = await site.status(run)
        started = [event for event in status.events if event.type == "model_call_started"]
        newest = started[-1] if started else None
        return bool(
            newest
            and newest.iteration == iteration
            and newest.data.get("role") == role
            and status.step
        )

    await eventually(calling)


async def judge_prompts(site: Installation, run: str) -> list[str]:
    """What the judge was asked in each of its calls."""
    history = await site.handle(run).fetch_history()
    judging = {
        event.event_id
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "judge"
    }
    found: list[str] = []
    for event in history.events:
        ended = event.activity_task_completed_event_attributes
        if ended.scheduled_event_id in judging:
            (report,) = await site.client.data_converter.decode(
                ended.result.payloads, [JudgeReport]
            )
            *asked, _ = await site.parts.stores.transcripts.load(report.call.head.hash)
            found.append("\n".join(message.text for message in asked))
    return found
