"""Every row of the decision table, reached by a run on a real server."""

from collections.abc import Mapping, Sequence

import pytest
from installation import Installation
from refining import TONE, WORDS_CHECK, draft, drafts, events, judged, spec, verdict, written

DECIDING = {**WORDS_CHECK, "name": "must", "decides": True, "weight": 0}
DECIDING["evaluator"] = {"check": "contains", "all": ["pine"]}


def case(
    name: str, scores: Sequence[float], ended: tuple[str, str, str], best: int, **settings: object
) -> object:
    return pytest.param(scores, settings, ended, best, id=name)


@pytest.mark.parametrize(
    ("scores", "settings", "ended", "best"),
    [
        case("score reached", [0.5, 0.8], ("accepted", "quality_met", "accept"), 2),
        case("not below min", [0.9, 0.8], ("accepted", "quality_met", "accept"), 1,
             min_iterations=2),
        case("max iterations", [0.3, 0.5, 0.7], ("best_effort", "max_iterations", "accept_best"),
             3),
        case("regression", [0.7, 0.4], ("regressed", "regression", "abort_regression"), 1),
        case("a fall of just the threshold is none", [0.7, 0.5, 0.9],
             ("accepted", "quality_met", "accept"), 3, improvement_threshold=None),
        case("regression from the best", [0.7, 0.6, 0.4],
             ("regressed", "regression", "abort_regression"), 1,
             compare_with="best", improvement_threshold=None),
        case("regression switched off", [0.7, 0.3, 0.6],
             ("best_effort", "max_iterations", "accept_best"), 1,
             abort_on_regression=False, improvement_threshold=None),
        case("degradation", [0.7, 0.6, 0.5], ("regressed", "degradation", "abort_regression"), 1,
             improvement_threshold=None, max_iterations=9),
        case("little gain", [0.5, 0.5], ("best_effort", "diminishing_returns", "accept_best"), 2),
        case("plateau", [0.5, 0.7, 0.6], ("best_effort", "plateau", "accept_best"), 2,
             pattern="improvement", max_iterations=9),
        case("improvement has no threshold", [0.5, 0.9, 0.8],
             ("best_effort", "plateau", "accept_best"), 2, pattern="improvement",
             max_iterations=9),
        case("nothing improves on a full score", [0.5, 1.0],
             ("accepted", "quality_met", "accept"), 2, pattern="improvement", max_iterations=9),
        case("a checklist ignores a fall", [0.9, 0.2, 1.0],
             ("accepted", "all_items_pass", "accept"), 3, pattern="checklist"),
        case("a tree by confidence", [0.5, 0.4, 0.6], ("accepted", "quality_met", "accept"), 3,
             termination={"type": "confidence", "threshold": 0.6}),
        case("a tree by or", [0.5, 0.5, 0.4], ("best_effort", "plateau", "accept_best"), 2,
             termination={"type": "combined", "operator": "or", "conditions": [
                 {"type": "confidence", "threshold": 0.9},
                 {"type": "no_improvement", "patience": 2}]}),
        case("a tree by and", [0.7, 0.6, 0.6], ("best_effort", "max_iterations", "accept_best"),
             1, termination={"type": "combined", "operator": "and", "conditions": [
                 {"type": "max_iterations", "limit": 2},
                 {"type": "no_improvement", "patience": 2}]}),
    ],
)  # fmt: skip
async def test_scores_decide(
    site: Installation,
    scores: Sequence[float],
    settings: Mapping[str, object],
    ended: tuple[str, str, str],
    best: int,
) -> None:
    result = await site.run(spec(**settings), {"replies": drafts(*scores)})
    assert (result.outcome, result.reason, result.iterations[-1].decision) == ended
    assert [record.score for record in result.iterations] == list(scores)
    assert [record.decision for record in result.iterations[:-1]] == ["continue"] * (
        len(scores) - 1
    )
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (best, max(scores))
    assert result.output == draft(max(scores), f"number{best}")


async def test_deciding_dimensions_return_the_output_that_passed(site: Installation) -> None:
    script = {"replies": [{"text": draft(0.7)}, {"text": draft(0.6, "pine")}]}
    result = await site.run(spec([WORDS_CHECK, DECIDING], min_iterations=3), script)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.output == draft(0.6, "pine")
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (1, 0.7)
    assert result.last is not None
    assert result.last.iteration == 2
    assert result.quality_met


@pytest.mark.parametrize(
    ("limits", "ended"),
    [
        pytest.param({}, ("accepted", "quality_met"), id="a fall"),
        pytest.param({"model_calls": 2}, ("out_of_budget", "model_calls"), id="the last call"),
    ],
)
async def test_a_pass_is_returned_whatever_its_score_fell_by(
    site: Installation, limits: Mapping[str, object], ended: tuple[str, str]
) -> None:
    script = {"replies": [{"text": draft(0.7)}, {"text": draft(0.2, "pine")}]}
    result = await site.run({**spec([WORDS_CHECK, DECIDING]), "budget": limits}, script)
    assert (result.outcome, result.reason) == ended
    assert result.output == draft(0.2, "pine")
    assert result.quality_met
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (1, 0.7)


async def test_an_identical_output_is_not_evaluated_again(site: Installation) -> None:
    replies = [*written(draft(0.5), draft(0.5)), *judged(verdict(0.6))]
    result = await site.run(spec([WORDS_CHECK, TONE]), {"replies": replies})
    assert (result.outcome, result.reason) == ("best_effort", "repeated_output")
    kinds = [(record.evaluation, record.score) for record in result.iterations]
    assert kinds == [("full", 0.55), ("skipped_identical", 0.55)]
    assert result.savings.evaluations_skipped == 1
    assert result.savings.judge_calls_saved == 1
    assert result.savings.naive_input_tokens > result.savings.input_tokens
    assert result.best is not None
    assert result.best.iteration == 2


@pytest.mark.long
async def test_an_output_seen_before_the_last_one_ends_too(site: Installation) -> None:
    texts = [draft(0.5, "a"), draft(0.6, "b"), f"{draft(0.5, 'a')}  \n"]
    result = await site.run(
        spec(improvement_threshold=None, max_iterations=5),
        {"replies": [{"text": text} for text in texts]},
    )
    assert (result.outcome, result.reason) == ("best_effort", "repeated_output")
    assert [record.evaluation for record in result.iterations] == ["full"] * 3
    assert result.best is not None
    assert result.best.iteration == 2


async def test_a_high_score_and_passing_checks_spare_the_judge(site: Installation) -> None:
    replies = [*written(draft(1), draft(1, "and more")), *judged(verdict(0.96))]
    result = await site.run(spec([WORDS_CHECK, TONE], min_iterations=2), {"replies": replies})
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    second = result.iterations[1]
    assert (second.evaluation, second.score) == ("skipped_confident", 0.98)
    assert second.dimensions["tone"].carried
    assert not second.dimensions["words"].carried
    assert result.savings.judge_calls_saved == 1


async def test_without_checks_a_high_score_vouches_for_nothing(site: Installation) -> None:
    replies = [*written("one", "two"), *judged(verdict(0.96), verdict(0.9))]
    result = await site.run(spec([TONE], min_iterations=2), {"replies": replies})
    assert [record.evaluation for record in result.iterations] == ["full", "full"]


@pytest.mark.parametrize(
    ("limits", "ended"),
    [
        pytest.param({"model_calls": 2}, "model_calls", id="model calls"),
        pytest.param({"iterations": 2}, "iterations", id="iterations"),
        pytest.param({"tokens": 2_600}, "tokens", id="tokens"),
        pytest.param({"cost_usd": 0.005}, "cost", id="cost"),
    ],
)
async def test_a_spent_budget_ends_with_the_best(
    site: Installation, limits: Mapping[str, object], ended: str
) -> None:
    script = {
        "price": {"input_per_million": 1, "output_per_million": 2},
        "defaults": {"usage": {"input_tokens": 1_000, "output_tokens": 300}},
        "replies": drafts(0.2, 0.3, 0.4, 0.5, 0.6),
        "max_output": 400,
    }
    given = {**spec(improvement_threshold=None, max_iterations=9), "budget": limits}
    result = await site.run(given, script)
    assert (result.outcome, result.reason) == ("out_of_budget", ended)
    assert result.iterations[-1].decision == "abort_budget"
    assert result.exhausted is not None
    assert ended.split("_", maxsplit=1)[0] in result.exhausted.text
    assert result.best is not None
    assert (result.best.score, result.best.iteration) == max(
        (record.score, record.index) for record in result.iterations if record.score is not None
    )
    assert not result.quality_met


@pytest.mark.long
async def test_a_last_token_spent_on_a_good_answer_is_quality_met(site: Installation) -> None:
    given = {**spec(), "budget": {"model_calls": 1}}
    result = await site.run(given, {"replies": drafts(1.0)})
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert result.quality_met
    assert not result.partial


@pytest.mark.parametrize("calls", [1, 3])
async def test_a_draft_that_nobody_could_judge_is_not_written(
    site: Installation, calls: int
) -> None:
    given = {**spec([WORDS_CHECK, TONE]), "budget": {"model_calls": calls}}
    tone = {"dimensions": [{"name": "tone", "score": 0.4, "gap": "stiff"}]}
    judging = [{"when": {"role": "evaluator"}, "json": tone}]
    result = await site.run(given, {"replies": [*judging, *drafts(0.5, 1.0)]})
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    judged = calls // 2
    assert (result.spend.model_calls, len(result.iterations)) == (2 * judged, judged)
    assert result.exhausted is not None
    assert "a draft with its judging makes 2" in result.exhausted.text
    assert all(record.score is not None for record in result.iterations)


@pytest.mark.parametrize(
    ("limits", "judges", "written"),
    [
        pytest.param({"tokens": 3_500}, 1, 1, id="tokens for one"),
        pytest.param({"tokens": 1_200}, 1, 0, id="tokens for none"),
        pytest.param({"cost_usd": 0.005}, 1, 1, id="money for one"),
        pytest.param({"cost_usd": 0.001}, 1, 0, id="money for none"),
        pytest.param({"model_calls": 2}, 2, 0, id="calls for one of two judges"),
        pytest.param({"model_calls": 5}, 2, 1, id="calls for two judges once"),
    ],
)
async def test_no_money_goes_into_a_draft_that_stays_unjudged(
    site: Installation, limits: Mapping[str, object], judges: int, written: int
) -> None:
    """Whichever limit it is, and however many judge: each draft that was paid for has its score."""
    names = ("tone", "style")[:judges]
    said = {"score": 0.4, "gap": "stiff"}
    script = {
        "price": {"input_per_million": 1, "output_per_million": 2},
        "defaults": {"usage": {"input_tokens": 500, "output_tokens": 200}},
        "max_output": 300,
        "replies": [
            *(
                {"when": {"model": name}, "json": {"dimensions": [{"name": name, **said}]}}
                for name in names
            ),
            *drafts(0.5, 1.0),
        ],
    }
    model = await site.script(script)
    rubric = [
        {**TONE, "name": name, "evaluator": {"judge": {"model": f"{model}#{name}"}}}
        for name in names
    ]
    given = {**spec(rubric, improvement_threshold=None), "budget": {**limits, "wrap_up": 0}}
    result = await site.run({**given, "models": {"executor": model}})
    assert result.outcome == "out_of_budget"
    made = [record for record in result.iterations if record.output_ref]
    assert [record.score for record in made] == [0.4] * written


@pytest.mark.long
async def test_active_time_ends_the_run_with_the_best(site: Installation) -> None:
    replies = [{"text": draft(0.5, "a")}, {"text": draft(0.6, "b"), "delay_s": 30}]
    given = {**spec(improvement_threshold=None), "budget": {"active_time": 1.0}}
    result = await site.run(given, {"replies": replies})
    assert (result.outcome, result.reason) == ("deadline", "active_time")
    assert result.iterations[-1].decision == "abort_timeout"
    assert result.output == draft(0.5, "a")


@pytest.mark.long
async def test_wall_time_ends_a_step_in_flight(site: Installation) -> None:
    replies = [{"text": draft(0.5, "a")}, {"text": draft(0.6, "b"), "delay_s": 60}]
    given = {**spec(improvement_threshold=None), "budget": {"wall_time": 2}}
    result = await site.run(given, {"replies": replies})
    assert (result.outcome, result.reason) == ("deadline", "wall_time")
    assert [record.decision for record in result.iterations] == ["continue", "abort_timeout"]
    assert result.output == draft(0.5, "a")


async def test_an_order_of_events(site: Installation) -> None:
    run = await site.start(spec(), {"replies": drafts(0.5, 0.8)})
    await site.gateway.result(run)
    kinds = [event.type for event in await events(site, run)]
    one = ["iteration_started", "model_call_started", "model_replied", "text_answered",
           "evaluated", "decided", "iteration_completed"]  # fmt: skip
    assert kinds == ["run_started", *one, *one, "condition_met", "ended"]


AT_HALF = {"type": "confidence", "threshold": 0.5}
ROUNDS_OF_TWO = {"type": "max_iterations", "limit": 2}


@pytest.mark.parametrize(
    ("replies", "refine", "budget", "row"),
    [
        pytest.param(drafts(0.9), {}, {}, "quality", id="a score"),
        pytest.param(drafts(0.2, 0.4), {"max_iterations": 2}, {}, "max_iterations", id="rounds"),
        pytest.param(drafts(0.5, 0.5), {}, {}, "little_gain", id="little gain"),
        pytest.param(drafts(0.7, 0.6, 0.5), {"improvement_threshold": None, "max_iterations": 9},
                     {}, "degradation", id="a slow fall"),
        pytest.param(drafts(0.2, 0.5), {"termination": AT_HALF}, {}, "tree", id="a tree"),
        pytest.param(drafts(0.2, 0.4), {"termination": ROUNDS_OF_TWO}, {}, "tree",
                     id="the rounds of a tree"),
        pytest.param([{"text": "oak"}, {"text": "oak"}], {}, {}, "repeated", id="the same again"),
        pytest.param(drafts(0.9), {}, {"model_calls": 1}, None, id="a spent budget is none"),
        pytest.param(drafts(0.7, 0.2), {}, {}, None, id="a regression is none"),
        pytest.param([{"error": "refusal"}], {}, {}, None, id="a failure is none"),
        pytest.param([{"text": ""}, {"text": ""}], {}, {}, None, id="no output is none"),
    ],
)  # fmt: skip
async def test_condition_met_is_said_of_conditions_alone(
    site: Installation,
    replies: object,
    refine: Mapping[str, object],
    budget: Mapping[str, object],
    row: str | None,
) -> None:
    run = await site.start({**spec(**refine), "budget": budget}, {"replies": replies})
    await site.gateway.result(run)
    met = [e.data["condition"] for e in await events(site, run) if e.type == "condition_met"]
    assert met == ([row] if row else [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "\u00a0\t",
        "\u200b\u200b",
        "\ufeff\n",
        "\u2060 \u00ad",
        "```markdown\n\n```",
        "<!-- the text -->",
        "---",
        "#\n\n* * *",
    ],
    ids=[
        "empty",
        "spaces",
        "odd spaces",
        "no width",
        "a mark of order",
        "hidden signs",
        "an empty fence",
        "a comment",
        "a rule",
        "marks",
    ],
)
async def test_a_blank_draft_is_no_output(site: Installation, text: str) -> None:
    result = await site.run(spec(), {"replies": [{"text": text}] * 2})
    assert (result.outcome, result.reason, result.output) == ("no_output", "no_output", None)


@pytest.mark.parametrize(
    ("rubric", "replies", "told"),
    [
        pytest.param([WORDS_CHECK], drafts(0.5), "missing: bay", id="an unmet check"),
        pytest.param(
            [TONE], [*written("a"), *judged(verdict(0.4, gap="too stiff"))], "too stiff", id="a gap"
        ),
        pytest.param(
            [TONE],
            [*written("a"), *judged(verdict(0.4, {"severity": "blocker", "dimension": "tone",
                                                  "title": "rude", "fix": "be kind"}))],
            "be kind",
            id="the fix of a finding",
        ),
        pytest.param(
            [WORDS_CHECK, TONE],
            [*written(draft(0.5)), *judged(verdict(0.6, gap="too stiff"))],
            "missing: bay",
            id="the weaker of two",
        ),
        pytest.param(
            [TONE],
            [*written("a", "b"), *judged(verdict(0.3), "?", "?")],
            "no usable verdict",
            id="a judge that failed",
        ),
    ],
)  # fmt: skip
async def test_what_is_to_be_changed_is_in_the_record(
    site: Installation, rubric: Sequence[object], replies: Sequence[object], told: str
) -> None:
    """Of the iteration before the last."""
    rounds = 1 + sum("evaluator" not in str(reply) for reply in replies)
    last = [*written("the last"), *judged(verdict(0.5))]
    settings = {"improvement_threshold": None, "max_iterations": rounds}
    result = await site.run(spec(rubric, **settings), {"replies": [*replies, *last]})
    assert len(result.iterations) == rounds
    assert told in (result.iterations[-2].adaptation or "")


async def test_a_record_says_what_the_next_iteration_was_told_to_change(site: Installation) -> None:
    result = await site.run(spec(), {"replies": [*drafts(0.5), {"text": ""}, {"text": ""},
                                                 *drafts(0.9)]})  # fmt: skip
    first, blank, last = (record.adaptation for record in result.iterations)
    assert first is not None
    assert first.startswith("[important] missing: bay, fig")
    assert blank is not None
    assert blank.startswith("The previous attempt failed: the executor gave no text")
    assert last is None
