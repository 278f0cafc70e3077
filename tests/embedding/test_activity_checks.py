"""Activities of somebody else's worker as checks of a rubric: their queue, their options."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from installation import Installation
from pydantic import JsonValue
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from perdure.adapters.checks import RubricChecks
from perdure.domain.evaluation.checks import ActivityVerdict
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.result import RunResult
from perdure.domain.tools.definitions import HANDED_OVER_BYTES
from perdure.embedding.activity_tools import placed_check
from perdure.extending.check_decorator import Adaptation, CheckResult
from perdure.temporal import PerdurePlugin, activity_check
from perdure.workflows.registry import WORKFLOWS, workflow_runner

QUEUE = "theirs"


@dataclass
class Limits:
    """A type of their own, in the parameters of a check."""

    share: float = 0.1


USUAL = Limits()


class Library:
    """Their activities; counts what they were asked."""

    def __init__(self, answers: Sequence[Any] = (True,)) -> None:
        self.asked: list[str] = []
        self.answers = [*answers]
        self.waiting = asyncio.Event()

    @activity.defn
    async def plagiarism(self, output: str, limits: Limits = USUAL, by: str = "words") -> Any:
        """How much of an output stands elsewhere.

        Args:
            output: what is compared.
            limits: how much may stand elsewhere.
            by: what is compared.
        """
        info = activity.info()
        self.asked.append(f"{output!r} {limits.share:g} {by}, attempt {info.attempt}")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "slowly":
            self.waiting.set()
            await asyncio.sleep(3_600)
        if isinstance(answer, Exception):
            raise answer
        return answer


BROKEN = ApplicationError("the index is away", type="IndexAway")
TWICE = {"retry_policy": RetryPolicy(maximum_attempts=2, initial_interval=timedelta(seconds=0.01))}
GIVEN = {"limits": {"share": 0.2}, "by": "lines"}
CASES = {
    "a truth value": ([True], {}, {}, 1.0, "", ["'One.' 0.1 words, attempt 1"]),
    "with parameters of the rubric": (
        [True], {}, GIVEN, 1.0, "", ["'One.' 0.2 lines, attempt 1"],
    ),
    "a score with words": (
        [(0.5, "half of it stands elsewhere")], {}, {}, 0.5, "half of it stands elsewhere",
        ["'One.' 0.1 words, attempt 1"],
    ),
    "a result": (
        [CheckResult(0.25, "copied", "Write it anew.")], {}, {}, 0.25, "copied",
        ["'One.' 0.1 words, attempt 1"],
    ),
    "it is tried again as its retry policy says": (
        [BROKEN, True], TWICE, {}, 1.0, "",
        ["'One.' 0.1 words, attempt 1", "'One.' 0.1 words, attempt 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "options", "given", "score", "gap", "asked"), CASES.values(), ids=CASES.keys()
)
async def test_an_activity_is_a_check(
    bare: Installation,
    answers: Sequence[Any],
    options: dict[str, Any],
    given: Mapping[str, Any],
    score: float,
    gap: str,
    asked: list[str],
) -> None:
    library = Library(answers)
    result = await _run(bare, library, given, options)
    assert library.asked == asked
    (record,) = await bare.records(result.id)
    assert (record.score, record.dimensions["own"].score) == (score, score)
    assert gap in record.dimensions["own"].gap


UNSCORED = {
    "it failed": ([BROKEN], {}, "failed with IndexAway: the index is away"),
    "it timed out": (
        ["slowly"], {"start_to_close_timeout": timedelta(seconds=0.3)}, "the worker was lost",
    ),
    "what it gave is no score": (["much"], {}, "'much', which is no score"),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "options", "told"), UNSCORED.values(), ids=UNSCORED.keys())
async def test_a_failed_one_is_no_score(
    bare: Installation, answers: Sequence[Any], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await _run(bare, Library(answers), {}, options)
    assert "evaluator_failed" in str(caught.value.cause)
    assert told in str(caught.value.cause)


async def test_it_replays_and_stands_in_the_history_under_its_own_name(bare: Installation) -> None:
    result = await _run(bare, Library([0.5, True]), {}, {}, texts=("One.", "Two."))
    history = await bare.handle(result.id).fetch_history()
    kinds = [
        one.activity_task_scheduled_event_attributes.activity_type.name
        for one in history.events
        if one.HasField("activity_task_scheduled_event_attributes")
    ]
    assert kinds.count("plagiarism") == 2
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=workflow_runner(),
        data_converter=bare.client.data_converter,
    )
    await replayer.replay_workflow(history)


async def test_a_stop_ends_it(bare: Installation) -> None:
    library = Library(["slowly"])

    async def stop(client: Client, run: str) -> None:
        await asyncio.wait_for(library.waiting.wait(), 60)
        await client.get_workflow_handle(run).signal("stop", {"mode": "now"})

    result = await _run(
        bare, library, {}, {"heartbeat_timeout": timedelta(seconds=1)}, meanwhile=stop
    )
    assert result.outcome == "stopped"


async def _run(
    site: Installation,
    library: Library,
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    texts: Sequence[str] = ("One.",),
    rubric: Sequence[object] = (),
    meanwhile=None,
    **refine: object,
) -> RunResult:
    plugin = PerdurePlugin(site.settings, checks=[activity_check(library.plagiarism, **options)])
    client = await Client.connect(site.address, plugins=[plugin])
    queue = run = f"library-{uuid.uuid4().hex[:8]}"
    task = {
        "goal": "Write.",
        "rubric": rubric or [{"name": "own", "evaluator": {"check": "plagiarism", **given}}],
        "models": {"executor": await site.script({"replies": [{"text": one} for one in texts]})},
        "refine": {"plan": "off", "max_iterations": len(texts), **refine},
        "recall": False,
    }  # fmt: skip
    async with Worker(client, task_queue=queue, activities=[library.plagiarism]):
        started = await client.start_workflow("RefineLoop", task, id=run, task_queue=queue)
        if meanwhile is not None:
            await meanwhile(client, run)
        await started.result()
        return await site.gateway.result(run)


RUBRIC = [
    {"name": "own", "evaluator": {"check": "plagiarism", **GIVEN}},
    {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 3}},
]


def _checks(function: Any = None) -> RubricChecks:
    made = activity_check(function or Library().plagiarism, task_queue=QUEUE)
    return RubricChecks(plugins={"plagiarism": made})


def test_it_is_handed_over_and_has_no_score_until_then() -> None:
    checks, rubric = _checks(), Rubric.model_validate(RUBRIC)
    own, short = checks.evaluate(rubric, "One.", "lines")
    assert (own.score, short.score) == (None, 1.0)
    assert "only a loop can run" in own.gap
    (asked,) = checks.activities(rubric, "One.", "lines")
    assert asked.arguments == ("One.", {"share": 0.2}, "lines")
    assert (asked.dimension, asked.activity.queue) == ("own", QUEUE)
    (judged,) = checks.judged(rubric, "One.", verdicts={"own": ActivityVerdict(value=[0.5, "no"])})
    assert (judged.name, judged.score, judged.findings[0].title) == ("own", 0.5, "no")
    # A worker in another language writes what it leaves out as null.
    empty: JsonValue = {"score": 0.5, "detail": None, "fix": None}
    (judged,) = checks.judged(rubric, "One.", verdicts={"own": ActivityVerdict(value=empty)})
    assert (judged.gap, judged.findings[0].fix) == ("the check is not met (score 0.5)", "")


@activity.defn
async def adapted(output: str, values: Adaptation, limit: int) -> bool:
    """It takes the values that a hook computed, among parameters of the rubric."""
    return bool(output) and values["limit"] == limit


def test_the_values_of_a_hook_come_where_its_signature_wants_them() -> None:
    rubric = Rubric.model_validate(
        [{"name": "own", "evaluator": {"check": "plagiarism", "limit": 4}}]
    )
    (asked,) = _checks(adapted).activities(rubric, "One.", adaptation={"limit": 3})
    assert asked.arguments == ("One.", {"limit": 3}, 4)


REFUSED = {
    "a wrong parameter": ({"share": 1}, "One.", "was given wrong parameters: share"),
    "an output that would travel by reference": (
        {}, "x" * HANDED_OVER_BYTES, "takes at most 131,072 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "output", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_asked_is_said_in_words(
    given: Mapping[str, Any], output: str, words: str
) -> None:
    rubric = Rubric.model_validate([{"name": "own", "evaluator": {"check": "plagiarism", **given}}])
    checks = _checks()
    assert checks.activities(rubric, output) == ()
    (score,) = checks.evaluate(rubric, output)
    assert score.score is None
    assert words in score.gap


async def test_a_part_that_gets_better_is_merged_though_they_are_asked_later(
    bare: Installation,
) -> None:
    rubric = [
        {"name": "own", "part": 2, "evaluator": {"check": "plagiarism"}},
        {"name": "first", "part": 1, "evaluator": {"check": "contains", "all": ["oak"]}},
        {"name": "second", "part": 2, "evaluator": {"check": "contains", "all": ["elm"]}},
    ]  # fmt: skip
    library = Library([0.5, True])
    parts = {"output": {"parts": "lines"}, "quality_threshold": 1.0}
    result = await _run(
        bare, library, {}, {}, texts=("the oak\nno tree", "the elm"), rubric=rubric, **parts
    )
    assert (result.outcome, result.output) == ("accepted", "the oak\nthe elm")
    assert [one.split(" 0.1")[0] for one in library.asked] == ["'no tree'", "'the elm'"]


def plain(output: str) -> bool:
    """No activity."""
    return bool(output)


def test_what_cannot_be_a_check_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"is no activity.*perdure\.check"):
        activity_check(plain)


def test_it_is_placed_on_the_queue_of_the_worker_that_has_it() -> None:
    made = activity_check(Library().plagiarism)
    placed = placed_check(made, [("other", frozenset()), (QUEUE, frozenset({"plagiarism"}))])
    assert placed.activity is not None
    assert placed.activity.target.queue == QUEUE
    with pytest.raises(InvalidInput, match="No worker has the activity 'plagiarism'"):
        placed_check(made, [("other", frozenset({"send"}))])
