"""What a dry run says of a task's inputs: too much for its limits, or not to be seen by a model."""

from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from planned import FREE, JUDGED, PRICE, card, loop, spec
from rich.console import Console

from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.cli.views.plan import plan_view
from perdure.interfaces.input_warnings import task_sizes
from perdure.interfaces.plan import plan_run
from perdure.interfaces.worst_case import worst_case

IMAGE = {
    "ref": "sha256:" + "0" * 64, "media_type": "image/png", "bytes": 40_960, "name": "chart.png",
    "width": 400, "height": 300,
}  # fmt: skip
PAPER = {
    "ref": "sha256:" + "1" * 64, "media_type": "application/pdf", "bytes": 90_000,
    "name": "paper.pdf", "pages": 40,
}  # fmt: skip
KEPT = "sha256:" + "2" * 64
SEES = {"attachments": ("image", "pdf")}
LARGE = SEES | {"window": 1_000_000}
PAPER_TOKENS = 40 * 8_000
OF_MEDIA = "of them for images and PDFs; the run may spend"


@pytest.mark.parametrize(
    ("context", "budget", "facts", "told"),
    [
        pytest.param(
            {"paper": PAPER}, {"tokens": 100_000}, LARGE, f"{PAPER_TOKENS:,} {OF_MEDIA} 100,000",
            id="a PDF above the tokens",
        ),
        pytest.param(
            {"paper": PAPER}, {"tokens": 400_000, "cost_usd": 0},
            LARGE | {"attachment_factor": 2.0},
            f"{2 * PAPER_TOKENS:,} {OF_MEDIA} 400,000", id="for a model that charges more",
        ),
        pytest.param(
            {"paper": PAPER}, {"tokens": 0}, SEES, "it has room for 200,000, so none fits",
            id="a PDF above the window",
        ),
        pytest.param(
            {"paper": PAPER}, {"cost_usd": 0.5, "tokens": 0}, LARGE,
            "up to 1.20 USD; the run may spend 0.5 USD (budget.cost_usd)",
            id="a PDF above the money",
        ),
        pytest.param(
            {"text": {"ref": KEPT}}, {"tokens": 5_000}, {}, "(budget.tokens), so none fits",
            id="a text that is kept beside the task",
        ),
        pytest.param(
            {"text": "word " * 9_000}, {"tokens": 5_000}, {}, "(budget.tokens), so none fits",
            id="a text",
        ),
        pytest.param({"chart": IMAGE}, {"tokens": 5_000}, SEES, None, id="an image that fits"),
        pytest.param({"text": "short"}, {"tokens": 5_000}, {}, None, id="a text that fits"),
    ],
)  # fmt: skip
def test_a_plan_says_when_the_inputs_are_too_much(
    context: dict[str, object],
    budget: dict[str, object],
    facts: dict[str, object],
    told: str | None,
) -> None:
    plan = plan_run(
        spec(context=context, budget=budget),
        cards={"m": card(PRICE, **facts)},
        queues=(),
        default_model="m",
        texts={KEPT: "word " * 9_000},
    )
    said = [one for one in plan.warnings if "The goal and its inputs" in one]
    drawn = StringIO()
    Console(file=drawn, width=500).print(plan_view(plan))
    assert len(said) == (told is not None)
    for one in said:
        assert told is not None
        assert told in one
        assert one in drawn.getvalue()


def test_the_price_of_one_call_counts_the_inputs() -> None:
    small, large = (
        worst_case(given, [card(PRICE, **LARGE)], task_sizes(given, {})).one_call_usd
        for given in (spec(), spec(context={"paper": PAPER}))
    )
    assert small is not None
    assert large is not None
    assert large - small > Decimal(1)


TEAM = loop(
    {"name": "coder", "prompt": "p"},
    {"name": "review", "prompt": "p", "model": "b"},
    condition={"type": "iteration_bound", "iterations": 1},
)
OF_B = [{"name": "tone", "evaluator": {"judge": {"model": "b"}}}]


@pytest.mark.parametrize(
    ("given", "blind"),
    [
        pytest.param({"rubric": JUDGED, "models": {"evaluator": "b"}}, ["evaluator"], id="judge"),
        pytest.param({"models": {"evaluator": "b"}}, [], id="nobody asks it"),
        pytest.param({"rubric": JUDGED}, [], id="all see"),
        pytest.param({"rubric": JUDGED, "models": {"evaluator": "x"}}, [], id="nobody knows it"),
        pytest.param({"rubric": OF_B}, ["judge b"], id="a named judge"),
        pytest.param(
            {"kind": "roles", "roles": {"definition": "team", "snapshot": TEAM}},
            ["stage review"],
            id="a reviewer",
        ),
    ],
)
def test_a_plan_says_whose_model_sees_no_pictures(given: dict[str, Any], blind: list[str]) -> None:
    models = {"executor": "m", **given.get("models", {})}
    fields = {"goal": "g", "context": {"chart": IMAGE}, **given, "models": models}
    plan = plan_run(
        RUN_SPEC.validate_python(fields) if "kind" in given else spec(**fields),
        cards={"m": card(FREE, **SEES), "b": card(FREE).model_copy(update={"name": "b"})},
        queues=(),
        default_model="m",
    )
    said = [one for one in plan.warnings if "cannot be shown" in one]
    assert [one.partition(":")[0] for one in said] == blind
    assert all("b cannot be shown images: of [image chart.png" in one for one in said)
