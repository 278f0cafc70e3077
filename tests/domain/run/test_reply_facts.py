"""Whose reply a result is: the model and the provider's request id, for every kind of run."""

import pytest

from perdure.domain.run.result import Mark, RunResult, with_reply_facts
from perdure.domain.turns.records import IterationRecord, StageRecord

Facts = tuple[str | None, str | None]


def record(index: int, model: str | None = "m", output: str | None = None, **more: object):
    """An iteration whose reply has the request id `req_INDEX`."""
    given = {"index": index, "model": model, "output_ref": output, **more}
    asked = None if model is None else f"req_{index}"
    return IterationRecord.model_validate({"request_id": asked, **given})


def stage(name: str, output: str | None = None, model: str | None = "m") -> StageRecord:
    return StageRecord(
        name=name,
        role=name,
        status="completed",
        model=model,
        request_id=f"req_{name}",
        output_ref=output,
    )


def result(kind: str, *records: IterationRecord, **more: object) -> RunResult:
    given = {"id": "r1", "kind": kind, "outcome": "accepted", "reason": "x", "explanation": "x"}
    return RunResult.model_validate({**given, "iterations": records, **more})


WRITTEN = (record(1, "a", "A"), record(2, "b", "B"), record(3, "c", "C"))


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        pytest.param(result("agent"), (None, None), id="nobody replied"),
        pytest.param(
            result("agent", record(1, "a"), record(2, "b")), ("b", "req_2"), id="the last"
        ),
        pytest.param(
            result("agent", record(1, "a"), record(2, None)),
            ("a", "req_1"),
            id="the last that came",
        ),
        pytest.param(
            result("refine", *WRITTEN, output_ref="B", best=Mark(iteration=2)),
            ("b", "req_2"),
            id="the best",
        ),
        pytest.param(
            result("refine", *WRITTEN, output_ref="B", best=Mark(iteration=1)),
            ("b", "req_2"),
            id="a pass that is not the best",
        ),
        pytest.param(
            result("refine", *WRITTEN, record(4, "d", "A"), output_ref="A", best=Mark(iteration=4)),
            ("d", "req_4"),
            id="an output that came back",
        ),
        pytest.param(
            result("refine", *WRITTEN, output_ref="Z"), ("c", "req_3"), id="made of several"
        ),
        pytest.param(
            result(
                "roles",
                record(1, None, stages=(stage("coder", "A", "a"), stage("reviewer", "R", "b"))),
                output_ref="A",
            ),
            ("a", "req_coder"),
            id="the stage whose output it is",
        ),
        pytest.param(
            result("roles", record(1, None, stages=(stage("coder", "A"), stage("reviewer", "R")))),
            ("m", "req_reviewer"),
            id="no stage's output: the last",
        ),
        pytest.param(
            result("delegation", record(1, "boss"), record(2, "chief"), output_ref="D"),
            ("chief", "req_2"),
            id="the manager who completed",
        ),
    ],
)
def test_a_result_names_the_reply_that_it_is_from(given: RunResult, facts: Facts) -> None:
    found = with_reply_facts(given)
    assert (found.model, found.request_id) == facts
