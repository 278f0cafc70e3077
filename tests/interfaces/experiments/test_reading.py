"""A report from the rows of the store: it knows when the runs of each arm end."""

from types import SimpleNamespace
from typing import Any, cast

from perdure.domain.experiments.plan import Arm, Entry, Fields, Plan
from perdure.domain.experiments.thresholds import Setting
from perdure.domain.experiments.trials import Step, Trial, Try
from perdure.interfaces.experiments.reading import read_report

REFINE: Fields = {"max_iterations": 3, "quality_threshold": 0.8, "improvement_threshold": 0.05}
PLAN = Plan(name="test", arms=(Arm(name="loop", task={"kind": "refine", "refine": REFINE}),))


class Rows:
    """An experiment of two inputs, as the store has it."""

    async def stored(self, id: str) -> Any:
        return SimpleNamespace(plan=PLAN, state="ended")

    async def entries(self, id: str) -> list[Entry]:
        return [Entry(name="a"), Entry(name="b")]

    async def trials(self, id: str) -> list[Trial]:
        steps = (Step(score=0.5, tokens=10), Step(score=0.9, tokens=10))
        one = Try(run="r", outcome="accepted", score=0.9, met=True, steps=steps)
        return [
            Trial(number=entry, arm="loop", entry=entry, tries=(one,), ended=True)
            for entry in range(2)
        ]


async def test_the_setting_that_a_loop_has_is_recommended_where_none_is_as_good_for_less() -> None:
    found = await read_report(cast("Any", Rows()), "e")
    assert found.entries == ["a", "b"]
    (study,) = found.report.thresholds
    assert study.recommended.setting == Setting.model_validate(REFINE)
