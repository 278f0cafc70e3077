"""People as evaluators: the gate, what is refused, deadlines, and what a person's words do."""

from pathlib import Path

import pytest
from installation import Installation, installation
from pydantic import JsonValue
from refining import WORDS_CHECK, draft, open_gate, prompt_of, spec, written
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.messages import Amend, Answer, Stop
from perdure.domain.run.spec import Timing

LIKED = {"name": "liked", "description": "fit to send", "evaluator": {"human": {"prompt": "Send?"}}}
CLEAR = {"name": "clear", "evaluator": {"human": {}}}
OAK: JsonValue = {"name": "oak", "evaluator": {"check": "contains", "all": ["oak"]}}
OPEN = {"improvement_threshold": None}


async def test_a_person_scores_until_it_is_good_enough(site: Installation) -> None:
    replies = written(draft(1.0, "a"), draft(1.0, "b"))
    run = await site.start(spec([WORDS_CHECK, LIKED], **OPEN), {"replies": replies})
    gate = await open_gate(site, run)
    assert gate.kind == "review"
    assert "- liked: fit to send Send?" in gate.prompt
    await site.gateway.verb(run, Answer(gate=gate.id, text="0.2 far too stiff", by="ann"))
    second = await open_gate(site, run)
    assert second.id != gate.id
    await site.gateway.verb(run, Answer(gate=second.id, text="liked: 1", by="ann"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    first, last = result.iterations
    assert (first.score, last.score) == (0.6, 1.0)
    assert (first.dimensions["liked"].source, first.dimensions["liked"].gap) == (
        "human",
        "far too stiff",
    )
    said = await prompt_of(site, result.transcript)
    assert any("far too stiff" in text for _, text in said)


async def test_answers_that_cannot_be_read_are_refused_at_the_door(site: Installation) -> None:
    run = await site.start(spec([LIKED, CLEAR], max_iterations=1), {"replies": written("a draft")})
    gate = await open_gate(site, run)
    for text in ("fine", "liked: 1", "7", "1 of 5", "liked: 1; clear: 1.5"):
        with pytest.raises(PerdureError, match=f"gate {gate.id}"):
            await site.gateway.verb(run, Answer(gate=gate.id, text=text))
    await site.gateway.verb(run, Answer(gate=gate.id, text="liked: 0.5; clear: 1"))
    result = await site.gateway.result(run)
    assert result.iterations[0].score == 0.75


@pytest.mark.parametrize(
    ("on_expiry", "ended", "score"),
    [
        pytest.param("end", ("unanswered", "gate_expired"), None, id="end"),
        pytest.param("default:0.9", ("accepted", "quality_met"), 0.9, id="a score"),
        pytest.param("default:accept", ("failed", "evaluator_failed"), None, id="no score"),
    ],
)
async def test_a_deadline_without_an_answer(
    site: Installation, on_expiry: str, ended: tuple[str, str], score: float | None
) -> None:
    gates = {"timeout_s": 0.2, "on_expiry": on_expiry}
    result = await site.run({**spec([LIKED]), "gates": gates}, {"replies": written("a draft")})
    assert (result.outcome, result.reason) == ended
    assert result.iterations[0].score == score
    assert result.output == "a draft"


async def test_a_stop_ends_the_wait(site: Installation) -> None:
    run = await site.start(spec([LIKED]), {"replies": written("a draft")})
    await open_gate(site, run)
    await site.gateway.verb(run, Stop())
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("stopped", "a draft")


async def test_a_review_ends_by_the_rubric_that_it_began_with(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """Also where the run continues as new after another rubric came, which scores what follows."""
    address = server.client.service_client.config.target_host
    timing = Timing(roll_messages=1)
    async with installation(tmp_path, address, timing=timing) as site, site.worker():
        replies = written("a draft", "an oak")
        run = await site.start(spec([LIKED], **OPEN), {"replies": replies})
        gate = await open_gate(site, run)
        first = (await site.handle(run).describe()).run_id
        await site.gateway.verb(run, Amend(rubric=[OAK]))

        async def rolled() -> bool:
            return (await site.handle(run).describe()).run_id != first

        await eventually(rolled)
        assert (await open_gate(site, run)).scores == ("liked",)
        await site.gateway.verb(run, Answer(gate=gate.id, text="0.2 far too stiff"))
        result = await site.gateway.result(run)
        assert [(one.score, list(one.dimensions)) for one in result.iterations] == [
            (0.2, ["liked"]),
            (1.0, ["oak"]),
        ]
