"""Whoever submits need not have the key: the default model is the workers'."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput
from perdure.submission.loading import load_data
from perdure.submission.types import Flags, Submission, Surroundings, as_workers_see

HERE = Surroundings(folder=None, default_model="local")
JUDGED: dict[str, JsonValue] = {
    "kind": "refine",
    "goal": "g",
    "rubric": [{"name": "clear", "evaluator": {"judge": {}}}],
}
PLAIN: dict[str, JsonValue] = {"kind": "agent", "goal": "g"}


@dataclass
class Workers:
    """What they say, and how often they were asked."""

    default: str | None
    asked: int = 0
    made: list[str] = field(default_factory=list)

    async def ask(self) -> str | None:
        self.asked += 1
        return self.default

    async def see(self, data: Mapping[str, JsonValue], model: str | None = None) -> Submission:
        def make(around: Surroundings) -> Submission:
            self.made.append(around.default_model)
            return load_data(dict(data), Flags(model=model), surroundings=around)

        return await as_workers_see(make, HERE, self.ask)


async def test_a_rubric_is_kept_where_the_workers_have_a_judge() -> None:
    with pytest.raises(InvalidInput, match="local never judges"):
        await Workers(None).see(JUDGED)
    workers = Workers("claude-sonnet-4-5")
    assert (await workers.see(JUDGED)).spec.kind == "refine"
    assert workers.made == ["local", "claude-sonnet-4-5"]


async def test_what_is_wrong_for_any_model_asks_nobody() -> None:
    workers = Workers("claude-sonnet-4-5")
    with pytest.raises(InvalidInput, match="gaol"):
        await workers.see({**PLAIN, "gaol": "g"})
    assert workers.asked == 0


@pytest.mark.parametrize(
    ("default", "model", "asked", "made"),
    [
        pytest.param("local", None, 1, ["local"], id="the-same-default"),
        pytest.param(None, None, 1, ["local"], id="nobody-to-ask"),
        pytest.param("claude-sonnet-4-5", "local", 0, ["local"], id="a-model-is-named"),
    ],
)
async def test_it_is_made_again_only_where_that_matters(
    default: str | None, model: str | None, asked: int, made: list[str]
) -> None:
    workers = Workers(default)
    await workers.see(PLAIN, model)
    assert (workers.asked, workers.made) == (asked, made)
