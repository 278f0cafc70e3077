"""The results of finished stages in a status."""

import pytest

from perdure.domain.run.status_views import RESULTS_SHOWN, of_iteration, stage_results
from perdure.domain.turns.records import IterationRecord, StageRecord, StageStatus, VerdictRecord

BLOB = "sha256:" + "a" * 64


def stage(name="coder", status: StageStatus = "completed", **more):
    return StageRecord(name=name, role=name, status=status, **more)


def verdict(kind, by="coder", rationale=""):
    return VerdictRecord(kind=kind, by=by, rationale=rationale)


@pytest.mark.parametrize(
    ("given", "verdicts", "expected"),
    [
        (stage(line="a draft"), (), ("completed", None, "a draft")),
        (
            stage(line="no"),
            [verdict("rejected", rationale="why")],
            ("completed", "rejected", "why"),
        ),
        (stage(line="LGTM"), [verdict("approved")], ("completed", "approved", "LGTM")),
        (stage(line="x"), [verdict("approved", by="judge")], ("completed", None, "x")),
        (
            stage(line="x"),
            [verdict("unclear", rationale="first"), verdict("approved", rationale="again")],
            ("completed", "approved", "again"),
        ),
        (stage(status="failed", error="it broke"), (), ("failed", None, "it broke")),
        (stage(status="cut"), (), ("cut", None, "")),
        (stage(line="two\nlines"), (), ("completed", None, "two lines")),
    ],
    ids=["work", "review", "bare approval", "another's", "asked again", "failed", "cut", "lines"],
)
def test_a_stage_says_its_verdict_and_a_summary(given, verdicts, expected):
    (found,) = of_iteration(2, [given], verdicts)
    assert (found.iteration, found.stage) == (2, "coder")
    assert (found.status, found.verdict, found.summary) == expected


def test_summaries_are_bounded_and_the_whole_text_is_named():
    long = verdict("rejected", rationale="word " * 1_000)
    (found,) = of_iteration(1, [stage(output_ref=BLOB, child="run.1")], [long])
    assert 0 < len(found.summary) <= 300
    assert (found.output_ref, found.child) == (BLOB, "run.1")


def test_the_newest_results_are_kept_oldest_first():
    records = [
        IterationRecord(index=index, stages=(stage("plan"), stage("coder")))
        for index in range(1, 21)
    ]
    found = stage_results(records)
    assert len(found) == RESULTS_SHOWN
    assert [one.iteration for one in found] == [index for index in range(15, 21) for _ in "pc"]


def test_what_is_under_way_replaces_the_record_of_its_iteration():
    failed = IterationRecord(index=2, stages=(stage("plan"), stage(status="failed")))
    records = [IterationRecord(index=1, stages=(stage("plan"),)), failed]
    again = of_iteration(2, [stage("plan", line="again")], ())
    found = stage_results(records, again)
    assert [(one.iteration, one.summary) for one in found] == [(1, ""), (2, "again")]
    assert stage_results([]) == ()
