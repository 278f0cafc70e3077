"""Experiment files: what is read, what is refused and in what words, before anything starts."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import JsonValue

from perdure.adapters.checks import check_problems
from perdure.domain.experiments.plan import Tries, trial_task
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.interfaces.definitions import DEFINITIONS
from perdure.submission.experiment_inputs import json_lines, table
from perdure.submission.experiments import (
    ExperimentSubmission,
    experiment_of,
    load_experiment,
    more_entries,
)
from perdure.submission.types import Surroundings

TASK: dict[str, JsonValue] = {
    "kind": "refine",
    "goal": "Describe the product.",
    "context": {"product": None},
    "rubric": [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}],
    "refine": {"max_iterations": 3},
    "budget": {"cost_usd": 0.2, "tokens": 1_000},
}
INPUTS: list[JsonValue] = [{"product": "bottle"}, {"product": "kettle"}]
JUDGE: dict[str, JsonValue] = {"judge": "Is it true?", "model": "claude-sonnet-5"}


def around(folder: Path | None) -> Surroundings:
    return Surroundings(folder=folder, definitions=DEFINITIONS, rubric_problems=check_problems)


def made(**fields: JsonValue) -> ExperimentSubmission:
    return experiment_of({"task": TASK, "inputs": INPUTS, **fields}, surroundings=around(None))


def refused(**fields: JsonValue) -> str:
    with pytest.raises(InvalidInput) as caught:
        made(**fields)
    return str(caught.value)


def test_without_arms_a_loop_is_compared_with_single_and_independent_tries() -> None:
    loop, single, best = made().plan.arms
    assert [loop.name, single.name, best.name] == ["loop", "single", "best_of"]
    assert loop.task["refine"]["max_iterations"] == 3  # type: ignore[index]
    assert single.task["refine"]["max_iterations"] == 1  # type: ignore[index]
    assert best.task["refine"]["max_iterations"] == 1  # type: ignore[index]
    assert best.tries == Tries(spend="same_tokens", of="loop")
    assert (str(loop.most_usd), loop.most_tokens) == ("0.2", 1_000)


def test_runs_of_one_experiment_do_not_learn_from_each_other() -> None:
    assert all(
        (arm.task["recall"], arm.task["learn"]) == (False, False) for arm in made().plan.arms
    )
    on = made(arms={"a": {"recall": True}}).plan.arms[0]
    assert (on.task["recall"], on.task["learn"]) == (True, False)


def test_no_input_stays_in_the_task_of_an_arm() -> None:
    plan = made().plan
    assert all(arm.task["context"] == {} for arm in plan.arms)
    assert "bottle" not in plan.model_dump_json()


@pytest.mark.parametrize(
    ("best_of", "tries"),
    [
        ({"best_of": 4}, Tries(count=4)),
        ({"best_of": "same_calls"}, Tries(spend="same_calls", of="loop")),
        ({"best_of": "same_tokens", "of": "long"}, Tries(spend="same_tokens", of="long")),
    ],
)
def test_how_often_an_arm_tries(best_of: dict[str, JsonValue], tries: Tries) -> None:
    arms: JsonValue = {"loop": {}, "long": {"refine.max_iterations": 5}, "best": best_of}
    assert made(arms=arms).plan.arms[2].tries == tries


def test_a_dotted_field_and_a_block_say_the_same() -> None:
    arms: JsonValue = {
        "dotted": {"refine.max_iterations": 2, "budget.tokens": 500},
        "blocks": {"refine": {"max_iterations": 2}, "budget": {"tokens": 500}},
    }
    dotted, blocks = made(arms=arms).plan.arms
    assert dotted.task == blocks.task
    assert dotted.most_tokens == 500


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"inputs": []}, "inputs: there is none"),
        ({"inputs": [7]}, "inputs[1]: found 7"),
        ({"inputs": [""]}, 'inputs[1]: found ""'),
        ({"inputs": [{"product": "a"}, {"thing": "b"}]}, "inputs[2] lacks product"),
        ({"inputs": [{"product": "a"}, {"product": "b", "x": 1}]}, "inputs[2] has also x"),
        ({"inputs": [{"product": "a"}, {"product": "b", "goal": "g"}]}, "inputs[2] has a goal"),
        ({"inputs": [{"id": "a", "product": "a"}, {"id": "a", "product": "b"}]}, "a second time"),
        ({"inputs": [{"product": "a", "set": 3}]}, "inputs[1].set"),
        ({"inputs": [{"product": "a", "set": {"refine": {"nope": 1}}}]}, "refine.nope"),
        ({"inputs": [{"thing": "a"}]}, "context.product"),
        ({"inputs": "products.jsonl"}, "files are not read here"),
        ({"inputs": [{"product": "a"}, {"product": "file:b"}]}, 'inputs[2].product: found "b"'),
        ({"inputs": [{"product": {"base64": "!"}}]}, "inputs[1].product.base64"),
        ({"inputs": [{"goal": "g", "x": ""}, {"goal": " ", "x": ""}]}, "inputs[2] has no goal"),
        ({"arms": {}}, "arms: found 0"),
        ({"arms": {"a b": {}}}, "arms.a b"),
        ({"arms": {"try-2": {}}}, "arms.try-2"),
        ({"arms": {"loop": {}, "loop-judge": {}}}, "arms.loop-judge"),
        ({"arms": {"a": 3}}, "arms.a: found 3"),
        ({"arms": {"a": {"refine.max_iteration": 1}}}, "Did you mean max_iterations?"),
        ({"arms": {"a": {"budget.tokens": -1}}}, "arms.a"),
        ({"arms": {"a": {"best_of": 0}}}, "arms.a.best_of: found 0"),
        ({"arms": {"a": {"best_of": True}}}, "arms.a.best_of: found true"),
        ({"arms": {"a": {"best_of": "same_money"}}}, "arms.a.best_of"),
        ({"arms": {"a": {"best_of": [3]}}}, "arms.a.best_of: found [3]"),
        ({"arms": {"a": {}, "1": {}, "b": {"best_of": "same_calls", "of": 1}}}, "b.of: found 1"),
        ({"arms": {"a": {"best_of": "same_tokens"}}}, "an arm without best_of"),
        (
            {"arms": {"loop": {}, "b": {"best_of": "same_tokens", "of": "lop"}}},
            "Did you mean loop?",
        ),
        ({"repeats": 0}, "repeats"),
        ({"parallel": 1_000}, "parallel"),
        ({"budget": -1}, "budget"),
        ({"budget": True}, "budget: found true"),
        ({"budget": "5"}, 'budget: found "5"'),
        ({"budget": {"usd": 1}}, "usd"),
        ({"score": "luck"}, 'score: found "luck"'),
        ({"score": "labels"}, "inputs.1.expected"),
        ({"score": {"check": "length"}}, "score"),
        ({"score": {"check": "regex", "pattern": "("}}, "pattern"),
        ({"score": {"judge": "is it good?", "model": "local"}}, "score.model"),
        ({"score": {**JUDGE, "budget": {"usd": 1}}}, "score.budget.usd"),
        ({"score": {**JUDGE, "budget": -1}}, "score.budget"),
        (
            {
                "score": JUDGE,
                "task": {**TASK, "context": {"product": None, "criteria": "c"}},
                "inputs": [{"product": "a", "criteria": "mine"}],
            },
            "inputs.criteria",
        ),
        ({"score": {**JUDGE, "bugdet": 1}}, "budget: {…}"),
        ({"score": {"rubric": "x"}}, "score: found"),
        ({"score": {"check": "contains", "all": ["x"], "passes": 7}}, "passes"),
        ({"task": {"kind": "agent", "goal": "g"}, "inputs": ["a"], "arms": {"a": {}}}, "score"),
        ({"sore": "rubric"}, "Did you mean score?"),
        ({"task": {"kind": "agent", "gaol": "x"}}, "Did you mean goal?"),
    ],
)
def test_wrong_input_is_refused_in_words(fields: dict[str, JsonValue], told: str) -> None:
    assert told in refused(**fields)


def test_no_mistake_hides_another() -> None:
    told = refused(
        arms={"a b": {}, "loop": {}, "typo": {"refine.max_iteration": 1}, "best": {"best_of": 0}},
        repeats="many",
        parallel=1_000,
        sore="labels",
        score="luck",
        budget=-1,
    )
    places = ["arms.a b", "arms.best.best_of", "arms.typo", "refine.max_iteration"]
    for place in [*places, "repeats", "parallel", "sore", "score: found", "budget"]:
        assert place in told
    assert told.count("The experiment cannot be run:") == 1


def test_a_mistake_of_the_task_is_told_once_and_hides_no_other() -> None:
    with pytest.raises(InvalidInput) as caught:
        made(task={**TASK, "gaol": "x"}, score="luck", parallel=0)
    told = str(caught.value)
    assert (told.count("the field gaol"), told.count("every arm")) == (1, 1)
    assert [place for place, _ in caught.value.problems] == ["task.gaol", "score", "parallel"]


@pytest.mark.parametrize("wrong", [{"inputs": []}, {"inputs": 3}, {"task": 3}])
def test_without_a_task_or_inputs_the_rest_is_told_as_far_as_it_goes(
    wrong: dict[str, JsonValue],
) -> None:
    told = refused(**wrong, parallel="x", arms={"a b": {}})
    assert next(iter(wrong)) in told
    assert "parallel" in told


def test_held_out_scores() -> None:
    check: JsonValue = {"check": "contains", "all": ["steel"], "passes": 0.5}
    scoring = made(score=check).plan.scoring
    assert (scoring.by, scoring.passes, scoring.held_out) == ("check", 0.5, True)
    scoring = made(score=JUDGE).plan.scoring
    assert scoring.judge is not None
    assert (scoring.by, scoring.judge.model, scoring.passes) == ("judge", "claude-sonnet-5", 0.8)
    labelled: JsonValue = [{"product": "a", "expected": "b"}, {"product": "c", "expected": "d"}]
    assert made(inputs=labelled, score="labels").plan.scoring.by == "labels"


def test_what_is_set_aside_is_the_most_over_all_inputs_with_the_judge() -> None:
    inputs: JsonValue = [
        {"product": "a"},
        {"product": "b", "set": {"budget": {"cost_usd": 3}}},
        {"product": "c", "set": {"budget": {"tokens": 7_000}}},
    ]
    plan = made(inputs=inputs, score={**JUDGE, "budget": {"cost_usd": 0.5}}).plan
    held = plan.held(plan.arms[0])
    assert (held.cost_usd, held.tokens) == (Decimal("3.5"), 107_000)
    unlimited: JsonValue = [{"product": "a"}, {"product": "b", "set": {"budget": {"tokens": 0}}}]
    plan = made(inputs=unlimited, score=JUDGE).plan
    assert (plan.held(plan.arms[0]).cost_usd, plan.held(plan.arms[0]).tokens) == (
        Decimal("0.45"),
        None,
    )


def test_an_agent_runs_with_a_held_out_score() -> None:
    task: JsonValue = {"kind": "agent", "goal": "Answer."}
    inputs: JsonValue = [{"question": "1+1", "expected": 2}]
    found = made(task=task, inputs=inputs, score="labels", arms={"agent": {}})
    assert found.entries[0].expected == 2
    assert found.entries[0].context == {"question": "1+1"}


def test_an_input_that_is_a_text_and_one_with_a_goal() -> None:
    task: JsonValue = {**TASK, "context": {}}
    assert made(task=task, inputs=["a text"]).entries[0].context == {"input": "a text"}
    goals: JsonValue = [{"goal": "Write a."}, {"goal": "Write b."}]
    assert [one.goal for one in made(task=task, inputs=goals).entries] == ["Write a.", "Write b."]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.jsonl", '{"id": "x", "product": "bottle"}\n\n{"id": "y", "product": "kettle"}\n'),
        ("in.json", '[{"id": "x", "product": "bottle"}, {"id": "y", "product": "kettle"}]'),
        ("in.yaml", "- {id: x, product: bottle}\n- {id: y, product: kettle}\n"),
        ("in.csv", '\ufeffid,product\nx,bottle\n"y","kettle"\n'),
        ("in.csv", '\ufeffid;product\r\nx;bottle\r\n"y";"kettle"\r\n'),
        ("in.csv", "id\tproduct\nx\tbottle\ny\tkettle\n"),
    ],
)
def test_files_of_inputs(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "task.yaml").write_text(json.dumps(TASK), encoding="utf-8")
    (tmp_path / "e.yaml").write_text(f"task: task.yaml\ninputs: {name}\n", encoding="utf-8")
    found = load_experiment("e.yaml", surroundings=around(tmp_path))
    assert [one.name for one in found.entries] == ["x", "y"]
    assert [one.context["product"] for one in found.entries] == ["bottle", "kettle"]
    assert found.plan.name == "e"


def test_a_folder_of_inputs(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("b.txt", "a.txt", ".hidden"):
        (tmp_path / "texts" / name).write_text(f"text of {name}", encoding="utf-8")
    task = json.dumps({**TASK, "context": {}})
    (tmp_path / "task.yaml").write_text(task, encoding="utf-8")
    (tmp_path / "e.yaml").write_text("{task: task.yaml, inputs: texts}", encoding="utf-8")
    found = load_experiment("e.yaml", surroundings=around(tmp_path))
    assert [one.name for one in found.entries] == ["a.txt", "b.txt"]
    assert found.entries[0].context == {"input": "text of a.txt"}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("in.jsonl", '{"product": "a"}\n{nope\n', "line 2, is no JSON"),
        ("in.csv", "product\na,b\n", "line 2, has another number of cells"),
        ("in.csv", "product,a,a\na,b,c\n", 'line 1, names the column "a" more than once'),
        ("in.csv", ",product\n0,a\n", "line 1, has no name for column 1.*index=False"),
        ("in.jsonl", '{"product": "a"}\n{"product": NaN}\n', r"inputs\[2\]\.product: found NaN"),
        ("in.jsonl", '{"product": "\\ud800"}\n', r"inputs\[1\]\.product: .* surrogate"),
        ("in.json", '{"product": "a"}', "instead of a list"),
        ("in.txt", "a", "form of the file"),
        ("in.jsonl", "", "inputs: there is none"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    data: JsonValue = {"task": TASK, "inputs": name}
    with pytest.raises(InvalidInput, match=told):
        experiment_of(data, surroundings=around(tmp_path))


def test_an_empty_cell_under_expected_is_no_right_answer(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("product,expected\na,A\nb,\n", encoding="utf-8")
    data: JsonValue = {"task": TASK, "inputs": "in.csv", "score": "labels"}
    with pytest.raises(InvalidInput, match=r"inputs\.2\.expected: found nothing"):
        experiment_of(data, surroundings=around(tmp_path))


@pytest.mark.parametrize("at", [0, 1])
def test_an_input_may_have_an_empty_field(at: int) -> None:
    inputs: list[JsonValue] = [
        {"product": "a", "note": "x", "set": {"category": "c"}} for _ in "ab"
    ]
    inputs[at] = {"product": "b", "note": None, "set": {"category": "c"}}
    found = made(inputs=inputs)
    assert found.entries[at].context == {"product": "b", "note": None}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"in\.jsonl"):
        experiment_of({"task": TASK, "inputs": "in.jsonl"}, surroundings=around(tmp_path))


def test_further_inputs_have_the_fields_of_the_first() -> None:
    found = made()
    more = more_entries([{"product": "cup"}], found.plan, found.entries, surroundings=around(None))
    assert [(one.name, one.context) for one in more] == [("3", {"product": "cup"})]
    with pytest.raises(InvalidInput, match="lacks product"):
        more_entries([{"cup": "x"}], found.plan, found.entries, surroundings=around(None))


SET: dict[str, JsonValue] = {
    "budget": {"cost_usd": 1.5},
    "refine": {"max_iterations": 9},
    "rubric": [{"name": "other", "evaluator": {"check": "contains", "all": ["oak"]}}],
}


def test_what_the_first_input_sets_holds_for_that_input_alone() -> None:
    submitted = made(inputs=[{"product": "a", "set": SET}, {"product": "b"}])
    loop, single, best = submitted.plan.arms
    first, second = (trial_task(loop, one, label="e") for one in submitted.entries)
    assert (first["rubric"][0]["name"], first["refine"]["max_iterations"]) == ("other", 9)  # type: ignore[index, call-overload]
    assert (second["rubric"][0]["name"], second["refine"]["max_iterations"]) == ("short", 3)  # type: ignore[index, call-overload]
    assert second["budget"]["cost_usd"] == "0.2"  # type: ignore[index, call-overload]
    assert [one.task["refine"]["max_iterations"] for one in (single, best)] == [1, 1]  # type: ignore[index, call-overload]
    assert str(loop.most_usd) == "1.5"
    # What an arm changes holds, or it would be no other arm for this input.
    for arm in (single, best):
        assert trial_task(arm, submitted.entries[0], label="e")["refine"]["max_iterations"] == 1  # type: ignore[index, call-overload]


def test_what_a_task_lacks_without_the_first_input_every_input_sets() -> None:
    task = {name: value for name, value in TASK.items() if name != "goal"}
    goals: list[JsonValue] = [{"product": one, "set": {"goal": f"Sell {one}."}} for one in "ab"]
    submitted = made(task=task, inputs=goals)
    told = [trial_task(arm, submitted.entries[1], label="e") for arm in submitted.plan.arms]
    assert {str(one["goal"]) for one in told} == {"Sell b."}
    assert "inputs.2: " in refused(task=task, inputs=[goals[0], {"product": "b"}])
    surroundings = around(None)
    with pytest.raises(InvalidInput, match=r"inputs\.3: "):
        more_entries(
            [{"product": "c"}], submitted.plan, submitted.entries, surroundings=surroundings
        )


def test_further_inputs_are_labelled_where_labels_score() -> None:
    submitted = made(inputs=[{"product": "a", "expected": "A"}], score="labels")
    with pytest.raises(InvalidInput, match=r"inputs\.2\.expected: found nothing"):
        more_entries(
            [{"product": "b"}], submitted.plan, submitted.entries, surroundings=around(None)
        )


def test_a_ready_made_task_is_an_experiment_too() -> None:
    data: JsonValue = {"task": "product-page", "inputs": [{"id": "a", "set": {"patience": 0}}]}
    with pytest.raises(InvalidInput):
        experiment_of(data, surroundings=around(Path.cwd()))
    data = {"task": "product-page", "inputs": [{"goal": "Write about a kettle."}]}
    found = experiment_of(data, surroundings=around(Path.cwd()))
    assert found.plan.arms[0].task["kind"] == "refine"


def test_a_csv_of_a_spreadsheet_keeps_its_cells() -> None:
    text = 'id;Preis (EUR, netto);Notiz\r\n007;1,50;"zwei\nZeilen; gut"\r\n008;;\r\n'
    assert table(text, named="x.csv") == [
        {"id": "007", "Preis (EUR, netto)": "1,50", "Notiz": "zwei\nZeilen; gut"},
        {"id": "008", "Preis (EUR, netto)": "", "Notiz": ""},
    ]
    assert table('id,"a;b;c"\n1,x\n', named="x.csv") == [{"id": "1", "a;b;c": "x"}]


def test_a_line_of_empty_cells_alone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="line 3, has only empty cells"):
        table("id;product\n1;bottle\n;\n", named="x.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_line_ends_of_systems_end_an_input(end: str) -> None:
    # All others at which `str.splitlines` splits; JSON writes some of them as they are.
    name = "a\v\f\x1c\x1d\x1e\x85\u2028\u2029b"
    inputs: list[JsonValue] = [{"product": name}, {"product": "cup"}]
    lines = [json.dumps(one, ensure_ascii=False) for one in inputs]
    assert json_lines(end.join(["", *lines, ""]), named="in.jsonl") == inputs
    assert table(end.join(["product", name, "cup"]), named="in.csv") == inputs
    with pytest.raises(InvalidInput, match=r"in\.jsonl, line 3, is no JSON: .*: line 1 column 2"):
        json_lines(end.join([*lines, "{", ""]), named="in.jsonl")
