"""A verdict of an earlier run is used where the task allows it, and says whose it was."""

import json

import pytest
from ground import Ground
from provider import MODEL, Play

from perdure.domain.run.result import RunResult

VERDICT = {"dimensions": [{"name": "tone", "score": 0.9, "gap": "warmer"}], "findings": []}
JUDGED = [{"name": "tone", "evaluator": {"judge": {}}}]
COLD = [{**JUDGED[0], "description": "cold"}]


def says(body: dict[str, object]) -> list[Play]:
    """The same draft each time, and a verdict where one is asked for."""
    asks = "dimensions" in json.dumps(body.get("output_config", {}))
    return [Play(text=json.dumps(VERDICT) if asks else "A warm text.")]


async def judged(served: Ground, cache: str, **more: object) -> RunResult:
    """A run of one draft."""
    settings = {"plan": "off", "judge": {"cache": cache}}
    given = {"goal": "Write warmly.", "rubric": JUDGED, "refine": settings, **more}
    run = await served.start(kind="refine", models={"executor": MODEL}, recall=False, **given)
    return await served.site.gateway.result(run)


@pytest.mark.parametrize(
    ("first", "second", "changes", "kind"),
    [
        pytest.param("installation", "installation", {}, "cached", id="shared"),
        pytest.param("installation", "run", {}, "full", id="the second keeps to itself"),
        pytest.param("run", "installation", {}, "full", id="the first kept to itself"),
        pytest.param("installation", "off", {}, "full", id="the second wants none"),
        pytest.param("off", "installation", {}, "full", id="the first kept none"),
        pytest.param("run", "run", {}, "full", id="as usual"),
        pytest.param("installation", "installation", {"goal": "?"}, "full", id="another goal"),
        pytest.param("installation", "installation", {"rubric": COLD}, "full", id="another rubric"),
    ],
)
async def test_a_verdict_of_another_run_says_whose_it_is(
    served: Ground, first: str, second: str, changes: dict[str, object], kind: str
) -> None:
    served.provider.choose = says
    earlier = await judged(served, first)
    later = await judged(served, second, **changes)
    assert earlier.iterations[0].evaluation == "full"
    (record,) = later.iterations
    assert (record.evaluation, record.score) == (kind, 0.9)
    assert record.dimensions["tone"].cached_from == (earlier.id if kind == "cached" else "")
    assert len(served.provider.bodies) == (3 if kind == "cached" else 4)
