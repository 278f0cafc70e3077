"""What a run would do and could cost at most."""

from io import StringIO

import pytest
from planned import FREE, JUDGED, PRICE, card, loop, spec
from rich.console import Console

from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.gateway.types import QueueState
from perdure.interfaces.cli.views.plan import plan_view
from perdure.interfaces.plan import iteration_limit, models_of, plan_run
from perdure.interfaces.planned_stages import ASSUMED, ends_when
from perdure.interfaces.worst_case import worst_case


@pytest.mark.parametrize(
    ("budget", "price", "told"),
    [
        ({}, PRICE, "2.00 USD: no call starts that does not fit"),
        ({"cost_usd": 0}, PRICE, "3.00 USD, if all 200,000 tokens were written by m."),
        ({"cost_usd": 0, "tokens": 0}, PRICE, "Unlimited"),
        ({}, None, "will not call it"),
        ({"unknown_price": "unverified"}, None, "Unknown: the model has no known price."),
        ({}, FREE, "Nothing: this model costs no money."),
    ],
    ids=["limited", "by tokens", "unlimited", "blocked", "unverified", "free"],
)
def test_worst_case(budget: dict[str, object], price: Price | None, told: str) -> None:
    assert told in worst_case(spec(budget=budget), [card(price)]).sentence


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (spec(), 3),
        (spec(refine={"max_iterations": 7}), 7),
        (spec(refine={"max_iterations": 7}, budget={"iterations": 2}), 2),
        (RUN_SPEC.validate_python({"kind": "agent", "goal": "g"}), 50),
    ],
    ids=["default", "own", "budget", "agent"],
)
def test_iteration_limit(given: Spec, limit: int) -> None:
    assert iteration_limit(given) == limit


def test_a_plan_names_models_by_role_and_warns() -> None:
    small = card(FREE, tools=False, judges=False)
    plan = plan_run(
        spec(rubric=JUDGED, models={"executor": ["m", "n"], "planner": "p"}, refine={"plan": "on"}),
        cards={"m": small},
        queues=(QueueState(queue="q", serves="loops", ready=True),),
        default_model="m",
        warnings=("first",),
    )
    assert [planned.role for planned in plan.models] == ["executor", "planner", "evaluator"]
    assert plan.models[0].chain == ("m", "n")
    assert plan.steps == ("recall", "plan", "execute", "evaluate", "decide", "refine")
    assert plan.judged == ("tone",)
    assert plan.ready
    assert plan.warnings == ("first", "m does not judge: checks alone decide.")


@pytest.mark.parametrize(("limit", "plans"), [(1, False), (2, True)])
def test_nothing_is_planned_for_the_one_iteration_of_a_termination_tree(
    limit: int, *, plans: bool
) -> None:
    tree = {"type": "max_iterations", "limit": limit}
    given = spec(refine={"plan": "auto", "termination": tree})
    plan = plan_run(given, cards={}, queues=(), default_model="m")
    assert ("plan" in plan.steps) == plans


@pytest.mark.parametrize(
    ("value", "what"),
    [
        pytest.param("two words", "9 characters", id="a text"),
        pytest.param({"ref": "sha256:" + "0" * 64}, "a text, kept beside the task", id="a file"),
        pytest.param([1, 2], "a list of 2 items", id="a list"),
        pytest.param({"a": 1}, "an object of 1 field", id="an object"),
        pytest.param(3.5, "3.5", id="a number"),
        pytest.param(None, "null", id="nothing"),
        pytest.param(
            {"ref": "sha256:" + "0" * 64, "media_type": "image/png", "bytes": 40_960,
             "name": "chart.png", "width": 640, "height": 480},
            "image chart.png, image/png, 640 × 480 pixels, 40 KB",
            id="an image",
        ),
        pytest.param(
            {"ref": "sha256:" + "0" * 64, "media_type": "application/pdf", "bytes": 900,
             "name": "paper.pdf", "pages": 1},
            "PDF paper.pdf, application/pdf, 1 page, 900 bytes",
            id="a PDF",
        ),
    ],
)  # fmt: skip
def test_a_plan_lists_what_the_model_is_shown(value: object, what: str) -> None:
    plan = plan_run(
        spec(context={"first": "x", "given": value}), cards={}, queues=(), default_model="m"
    )
    assert [one.name for one in plan.inputs] == ["first", "given"]
    assert plan.inputs[1].what == what
    drawn = StringIO()
    Console(file=drawn, width=120).print(plan_view(plan))
    assert f"given: {what}" in drawn.getvalue()


REVIEWED: dict[str, object] = {
    "type": "evaluation_bound",
    "criteria": "It works.",
    "max_review_rounds": 4,
}
INNER = loop(
    {"name": "tester", "prompt": "p", "model": "dear"},
    condition={"type": "iteration_bound", "iterations": 1},
)
SNAPSHOT = loop(
    {"name": "plan", "role": "planner", "prompt": "p", "access": "readonly", "budget": 0.25},
    {"name": "try", "prompt": "p", "loop": "tests"},
    {"name": "review", "prompt": "p", "access": "full"},
    condition=REVIEWED,
    **{"try": INNER},
)


def of_roles(**fields: object) -> Spec:
    settings = {"definition": "team", "snapshot": SNAPSHOT.model_dump(mode="json", by_alias=True)}
    own = fields.pop("roles", {})
    assert isinstance(own, dict)
    return RUN_SPEC.validate_python(
        {"kind": "roles", "goal": "g", "roles": {**settings, **own}, **fields}
    )


def test_a_plan_of_roles_shows_the_stages_of_the_definition_it_names() -> None:
    given = of_roles(models={"executor": "m"}, tools={"access": "readonly-shell"})
    assert set(models_of(given, "other")) == {"m", "dear"}
    plan = plan_run(given, cards={"m": card(FREE)}, queues=(), default_model="other")
    assert plan.steps == ("plan", "try", "review")
    assert (plan.iterations, plan.ends) == (4, "the review approves, or after 4 iterations")
    first, second, third = plan.stages
    assert (first.role, first.access, first.models, first.share) == (
        *("planner", "readonly", ("m",)),
        0.25,
    )
    assert (second.loop, second.access, second.gate) == ("tests", None, False)
    assert [(one.name, one.models) for one in second.stages] == [("tester", ("dear",))]
    assert (third.access, third.gate) == ("readonly-shell", True)
    assert [planned.role for planned in plan.models] == ["executor"]


def test_rounds_that_the_task_asks_for_replace_those_of_the_definition() -> None:
    plan = plan_run(of_roles(roles={"max_iterations": 2}), cards={}, queues=(), default_model="m")
    assert (plan.iterations, plan.ends) == (2, "the review approves, or after 2 iterations")


def test_the_dearest_model_of_any_stage_makes_the_worst_case() -> None:
    unlimited = of_roles(models={"executor": "m"}, budget={"cost_usd": 0, "tokens": 1_000_000})
    dear = ModelProfile(name="dear", price=PRICE)
    cards = {"m": card(FREE), "dear": dear}
    plan = plan_run(unlimited, cards=cards, queues=(), default_model="m")
    assert plan.worst.sentence == "15.00 USD, if all 1,000,000 tokens were written by dear."
    assert plan.worst.one_call_usd is not None
    assert plan.worst.one_call_usd > 0
    unknown = {"m": card(FREE), "dear": ModelProfile(name="dear", price=None)}
    limited = of_roles(models={"executor": "m"})
    told = plan_run(limited, cards=unknown, queues=(), default_model="m").worst.sentence
    assert "The price of dear is unknown" in told


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({"type": "goal_bound", "max_iterations": 1}, "goal achieved, or after 1 iteration"),
        ({"type": "time_bound", "seconds": 90}, "after 90 s"),
        ({"type": "timeout", "seconds": 90}, "after 90 s of work"),
        ({"type": "time_bound", "until": "2030-01-01T00:00:00Z"}, "at 2030-01-01T00:00:00+00:00"),
        (
            {"type": "tool_bound", "tool": "probe", "operator": ">=", "value": 3},
            "probe gives a number >= 3",
        ),
        ({"type": "manual"}, "somebody stops it"),
        (
            {
                "type": "combined",
                "operator": "and",
                "conditions": [REVIEWED, {"type": "iteration_bound", "iterations": 2}],
            },
            "(the review approves, or after 4 iterations) and after 2 iterations",
        ),
        ({"type": "evaluation_bound"}, f'assumed ("{ASSUMED}"), or after 5 iterations'),
    ],
    ids=["goal", "time", "work", "moment", "tool", "manual", "both", "assumed"],
)
def test_what_ends_a_loop_is_told_in_words(condition: dict[str, object], told: str) -> None:
    snapshot = loop({"role": "coder", "prompt": "p"}, condition=condition)
    assert ends_when(snapshot.definition.termination_condition).endswith(told)


def test_a_plan_of_a_delegation_names_its_people_and_how_many_there_may_be() -> None:
    given = RUN_SPEC.validate_python(
        {
            "kind": "delegation",
            "goal": "g",
            "models": {"executor": "m", "worker": "w"},
            "delegation": {"max_iterations": 9},
        }
    )
    plan = plan_run(given, cards={}, queues=(), default_model="m")
    assert [(one.role, one.chain) for one in plan.models] == [
        ("manager", ("m",)),
        ("worker", ("w",)),
        ("critic", ("m",)),
    ]
    assert plan.iterations == 9
    assert plan.crew == (
        "up to 6 workers an iteration, 16 at once, 500 in all, 6 of them managers, 4 levels deep, "
        "each 90 s of work (agent.active_time), 30 s a tool call (agent.tool_timeout)"
    )
    assert (plan.worst.workers, plan.worst.tool_calls) == (500, 1_500)
    alone = given.model_copy(
        update={"delegation": DelegationSettings.model_validate({"critique": {"enabled": False}})}
    )
    names = [one.role for one in plan_run(alone, cards={}, queues=(), default_model="m").models]
    assert names == ["manager", "worker"]


DELEGATED = {"kind": "delegation", "goal": "g"}


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ({}, "each 90 s of work (agent.active_time), 30 s a tool call (agent.tool_timeout)"),
        ({"active_time": 600}, "each 600 s of work (agent.active_time), 30 s a tool call"),
        ({"tool_timeout": 2.5}, "90 s of work (agent.active_time), 2.5 s a tool call"),
        ({"active_time": 5, "tool_timeout": 1}, "5 s of work (agent.active_time), 1 s a tool call"),
        ({"profile": "agent"}, "each 90 s of work"),
    ],
    ids=["the profile's", "its work", "its tools", "both", "workers are delegates"],
)
def test_a_plan_tells_the_clocks_of_workers(agent: dict[str, object], told: str) -> None:
    given = RUN_SPEC.validate_python({**DELEGATED, "agent": agent})
    crew = plan_run(given, cards={}, queues=(), default_model="m").crew
    assert crew is not None and told in crew


REFINED = {"kind": "refine", "goal": "g", "rubric": [{"name": "good", "evaluator": {"judge": {}}}]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kind": "agent", "goal": "g"}, "30 d in all"),
        (REFINED, "30 d in all"),
        ({"kind": "roles", "goal": "g", "roles": {"definition": "coding-team"}}, "30 d in all"),
        (DELEGATED, "30 d in all"),
        ({**DELEGATED, "budget": {"tokens": 5}}, "30 d in all"),
        ({**DELEGATED, "budget": {"wall_time": 60}}, "1 min in all"),
        (DELEGATED, "after 7 d a call is denied, and any other question ends the run"),
        ({**DELEGATED, "gates": {"on_expiry": "end"}}, "after 7 d a question ends the run"),
        ({**DELEGATED, "gates": {"timeout_s": 60}}, "after 1 min a call is denied"),
        ({**DELEGATED, "gates": {"on_expiry": "wait"}}, "until somebody answers, or the run"),
        ({**DELEGATED, "gates": {"timeout_s": None}}, "until somebody answers, or the run"),
        (
            {**DELEGATED, "gates": {"on_expiry": "default:stop"}},
            "after 7 d a call is denied, and any other question is answered 'stop'",
        ),
    ],
)
def test_a_plan_tells_when_a_run_that_nobody_looks_after_ends(
    given: dict[str, object], told: str
) -> None:
    plan = plan_run(RUN_SPEC.validate_python(given), cards={}, queues=(), default_model="m")
    console = Console(width=400, file=StringIO())
    console.print(plan_view(plan))
    assert isinstance(console.file, StringIO) and told in console.file.getvalue()


def test_a_missing_worker_makes_it_not_ready() -> None:
    queues = (
        QueueState(queue="a", serves="loops", ready=True),
        QueueState(queue="b", serves="models", ready=False),
    )
    plan = plan_run(spec(), cards={}, queues=queues, default_model="m")
    assert not plan.ready
