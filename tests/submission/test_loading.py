"""Tasks from files, bare words and flags: layers of defaults, and every problem at once."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.evaluation.checks import LengthCheck
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.refine.spec import RefineSpec
from perdure.submission.loading import load_data, revise
from perdure.submission.types import Flags, Surroundings
from tests.submission.task_files import TASK, Load, write


def test_a_file_is_read_with_its_built_in_defaults(home: Path, submit: Load) -> None:
    write(home / "work" / "task.yaml", TASK)
    spec = submit("task.yaml").spec

    assert isinstance(spec, RefineSpec)
    assert (spec.budget.tokens, spec.budget.cost_usd) == (1000, Decimal("2.00"))
    assert [item.name for item in spec.rubric.dimensions] == ["short", "tone"]


def test_a_file_may_be_json(home: Path, submit: Load) -> None:
    write(home / "work" / "task.json", '{"kind": "agent", "goal": "g"}')
    assert submit("task.json").spec.goal == "g"


@pytest.mark.parametrize(
    ("task", "name"),
    [("task.yaml", "task"), ("parse-cv.yaml", "parse-cv"), ("Say hello.", "")],
    ids=["a file", "another file", "words"],
)
def test_a_run_is_named_by_the_file_of_its_task(
    home: Path, submit: Load, task: str, name: str
) -> None:
    for file in ("task.yaml", "parse-cv.yaml"):
        write(home / "work" / file, TASK)
    assert submit(task).name == name


def test_defaults_rise_from_user_to_folder_to_file_to_flags(home: Path, submit: Load) -> None:
    write(
        home / "home" / "perdure.yaml",
        "budget: {tokens: 1, output_tokens: 1, model_calls: 1, tool_calls: 1}\nlearn: false",
    )
    write(
        home / "work" / "perdure.yaml", "budget: {output_tokens: 2, model_calls: 2, tool_calls: 2}"
    )
    write(
        home / "work" / "task.yaml", "kind: agent\ngoal: g\nbudget: {model_calls: 3, tool_calls: 3}"
    )
    spec = submit("task.yaml", sets=("budget.tool_calls=4",)).spec
    budget = spec.budget

    assert (budget.tokens, budget.output_tokens, budget.model_calls, budget.tool_calls) == (
        1, 2, 3, 4,
    )  # fmt: skip
    assert spec.learn is False


def test_defaults_may_speak_of_other_kinds(home: Path, submit: Load) -> None:
    write(home / "work" / "perdure.yaml", "refine: {max_iterations: 7}")
    assert isinstance(submit("just a goal").spec, AgentSpec)

    refined = submit("at most 9 words", quality=0.9).spec
    assert isinstance(refined, RefineSpec)
    assert (refined.refine.max_iterations, refined.refine.quality_threshold) == (7, 0.9)


@pytest.mark.parametrize(
    ("flags", "read", "value"),
    [
        ({"budget": {"cost_usd": "0.5"}}, lambda spec: spec.budget.cost_usd, Decimal("0.5")),
        ({"model": "claude-x"}, lambda spec: spec.models.executor, "claude-x"),
        ({"iterate": 5}, lambda spec: spec.refine.max_iterations, 5),
        ({"quality": 0.95}, lambda spec: spec.refine.quality_threshold, 0.95),
        ({"sets": ("recall=false",)}, lambda spec: spec.recall, False),
        ({"sets": ("refine.plan=off",)}, lambda spec: spec.refine.plan, "off"),
        ({"sets": ("metadata.label=2026-01-02",)}, lambda spec: spec.metadata.label, "2026-01-02"),
        ({"sets": ("rubric[0].weight=3",)}, lambda spec: spec.rubric.dimensions[0].weight, 3),
        ({"sets": ("tools.deny=[a, b]",)}, lambda spec: spec.tools.deny, ("a", "b")),
        ({"sets": ("refine.patience=4", "recall=no")}, lambda spec: spec.refine.patience, 4),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_flags_win_over_the_file(
    home: Path,
    submit: Load,
    flags: dict[str, object],
    read: Callable[[RefineSpec], object],
    value: object,
) -> None:
    write(home / "work" / "task.yaml", TASK)
    spec = submit("task.yaml", **flags).spec
    assert isinstance(spec, RefineSpec)
    assert read(spec) == value


def test_bare_words_are_an_agent_run(submit: Load) -> None:
    spec = submit("Summarise the news in README.md").spec
    assert isinstance(spec, AgentSpec)
    assert spec.goal == "Summarise the news in README.md"


def test_bare_words_that_iterate_get_checks_and_a_judge(submit: Load) -> None:
    found = submit("Write at most 60 words about steel.", iterate=4)
    spec = found.spec

    assert isinstance(spec, RefineSpec)
    assert [item.name for item in spec.rubric.dimensions] == ["words", "task"]
    assert spec.rubric.dimensions[0].evaluator == LengthCheck(check="length", unit="words", max=60)
    assert (spec.refine.max_iterations, found.notes) == (4, ())


def test_the_embedded_model_never_judges_and_it_says_so(submit: Load) -> None:
    found = submit("Write at most 60 words about steel.", iterate=4, judges=False)
    spec = found.spec

    assert isinstance(spec, RefineSpec)
    assert [item.name for item in spec.rubric.dimensions] == ["words"]
    assert "local never judges" in found.notes[0]
    assert "checks alone decide" in found.notes[0]


def test_only_the_vain_judge_is_left_out(tmp_path: Path, submit: Load) -> None:
    task = tmp_path / "task.yaml"
    task.write_text(
        "kind: refine\ngoal: Write.\nrubric:\n"
        "  - {name: tone, evaluator: {judge: {}}}\n"
        "  - {name: facts, evaluator: {judge: {model: claude-x}}}\n"
        "  - {name: suite, evaluator: {check: tests}}\n"
        "  - {name: liked, evaluator: {human: {}}}\n"
    )
    spec = submit(str(task), judges=False).spec
    assert isinstance(spec, RefineSpec)
    assert [item.name for item in spec.rubric.dimensions] == ["facts", "suite", "liked"]


def test_another_evaluator_may_judge_beside_the_embedded_model(submit: Load) -> None:
    found = submit("at most 60 words", iterate=4, judges=False, sets=("models.evaluator=claude-x",))
    assert found.notes == ()


def test_nothing_to_evaluate_is_refused_with_what_to_state(submit: Load) -> None:
    with pytest.raises(InvalidInput, match="Nothing can be evaluated") as caught:
        submit("Write something nice.", iterate=4, judges=False)
    assert "words to mention" in caught.value.cure


def test_an_agent_that_iterates_on_demand_keeps_its_kind(submit: Load) -> None:
    spec = submit("do it", kind="agent", iterate=9).spec
    assert spec.agent.max_iterations == 9


def test_a_missing_file_is_not_taken_for_a_goal(submit: Load) -> None:
    with pytest.raises(NotFound, match=r"no task file .*tsak\.yaml"):
        submit("tsak.yaml")
    with pytest.raises(InvalidInput, match="goal is empty"):
        submit("  ")


def test_every_problem_is_told_at_once(home: Path, submit: Load) -> None:
    write(
        home / "work" / "task.yaml",
        """
kind: refine
budgett: {}
budget: {tokens: -1, cost_usd: much}
tools: {access: readonley}
workspace: nowhere
context: {notes: {file: ../secret}}
rubric:
  - {name: short, evaluator: {check: lengtj, unit: words, max: 60}}
  - {name: long, evaluator: {check: length, unit: words, maxx: 60, min: 1}}
""",
    )
    with pytest.raises(InvalidInput) as caught:
        submit("task.yaml", quality=7)
    told = caught.value.message

    for part in (
        "budgett: found the field budgett",
        "Did you mean budget?",
        "budget.tokens: found -1; allowed: at least 0",
        'budget.cost_usd: found "much"',
        'tools.access: found "readonley"; allowed: one of full, readonly-shell',
        "Did you mean readonly?",
        "goal: found nothing; allowed: a value; the field is required",
        "workspace: found ",
        "context.notes: found ",
        "rubric[0].evaluator",
        "did you mean length?",
        "rubric[1].evaluator.maxx: found the field maxx; allowed: one of check, max, min, unit",
        "Did you mean max?",
        "refine.quality_threshold: found 7; allowed: at most 1",
    ):
        assert part in told
    assert "pydantic" not in told
    assert "Input should be" not in told


def test_a_wrong_default_names_its_file(home: Path, submit: Load) -> None:
    path = write(home / "home" / "perdure.yaml", "budget: {tokenz: 5}")
    with pytest.raises(InvalidInput, match="Did you mean tokens") as caught:
        submit("a goal")
    assert f"budget.tokenz (in {path})" in caught.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: agent\nkind: refine", "line 2, column 1: the key 'kind' is given twice"),
        ("kind: [", "cannot be read as YAML"),
        ("- a\n- b", "holds a list instead of fields"),
        ("just words", "holds a text instead of fields"),
        ("a: !!python/object:os.system x", "cannot be read"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "\n".join(
            f"{new}: &{new} [*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old}]"
            for old, new in zip("abcdef", "bcdefg", strict=True)
        ), "more than 50000 values"),
        ("context: {a: &a " + "x" * 10_000 + ", b: [" + "*a, " * 200 + "]}",
         "holds more than 1,059,400 characters"),
        ("? [1, 2]\n: x", "cannot be read"),
        ("a: &a {k1: 1, k2: 2}\n" + "\n".join(
            f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 400)}]}}"
            for old, new in zip("abcd", "bcde", strict=True)
        ) + f"\nf: {{<<: [{', '.join(['*e'] * 30_000)}]}}", "`<<` makes more than 50000 values"),
        ("context: {a: [1, !!binary aGVsbG8=]}", "at context.a[1]: found bytes (!!binary)"),
        ("context: {a: !!set {b, c}}", "at context.a: found a set"),
        ("context: {a: \"\\ud800\"}", "at context.a: found half a character"),
        ("context: " + "[" * 210 + "]" * 210, "found more than 200 levels"),
        ("context: " + "[" * 2000 + "]" * 2000, "it is nested too deep"),
        ("goal: " + "9" * 5000, "line 1, column 7: this is no number"),
    ],
    ids=[
        "repeated key", "broken", "list", "text", "tag", "aliases", "long aliases", "odd key",
        "merges", "bytes", "set", "half a character", "deep", "deeper", "long number",
    ],
)  # fmt: skip
def test_unreadable_files_are_refused_with_the_place(
    home: Path, submit: Load, text: str, words: str
) -> None:
    write(home / "work" / "task.yaml", text)
    with pytest.raises(InvalidInput) as caught:
        submit("task.yaml")
    assert words in caught.value.message


def test_keys_are_texts_as_they_are_written(home: Path, submit: Load) -> None:
    keys = ("on", "no", "1.10", "010", "2026", "2026-01-31", "1:30", "null", "~", "'yes'")
    lines = "".join(f"  {key}: {number}\n" for number, key in enumerate(keys))
    write(home / "work" / "task.yaml", f"kind: agent\ngoal: g\ncontext:\n{lines}")
    names = [key.strip("'") for key in keys]
    assert submit("task.yaml").spec.context == {name: n for n, name in enumerate(names)}


def test_a_key_that_replaces_a_merged_one_is_not_repeated(home: Path, submit: Load) -> None:
    write(
        home / "work" / "task.yaml",
        "kind: agent\ngoal: g\ncontext:\n  low: &low {a: 1, b: 2}\n"
        "  deep: {deeper: {deepest: &mid {<<: *low, a: 3}}}\n  top: {<<: *mid, b: 4}\n",
    )
    context = submit("task.yaml").spec.context
    assert context["top"] == {"a": 3, "b": 4}
    assert context["deep"] == {"deeper": {"deepest": {"a": 3, "b": 2}}}


@pytest.mark.parametrize("text", ["budget.tokens", "=5", "[0]=5", "goal.x=1"])
def test_a_wrong_set_is_explained(home: Path, submit: Load, text: str) -> None:
    write(home / "work" / "task.yaml", TASK)
    with pytest.raises(InvalidInput):
        submit("task.yaml", sets=(text,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rubric[7].weight=1", r"rubric\[7\]\.weight: found nothing at this place"),
        ("goal[0]=x", r"goal\[0\]: found nothing at this place"),
        ("rubric[0].name.x[0]=y", r"rubric\[0\]\.name\.x\[0\]: found nothing at this place"),
        ("budget.tokens[0]=5000", r"budget\.tokens\[0\]: found nothing at this place"),
        ("budget.cost_usd[0]=1", r"budget\.cost_usd: found \[1\]; allowed: an amount"),
    ],
)
def test_a_set_into_a_list_that_is_not_there_is_refused(
    home: Path, submit: Load, text: str, words: str
) -> None:
    write(home / "work" / "task.yaml", TASK)
    with pytest.raises(InvalidInput, match=rf"has 1 problem:\n  {words}"):
        submit("task.yaml", sets=(text,))


def test_a_set_of_a_first_item_makes_the_list(home: Path, submit: Load) -> None:
    write(home / "work" / "task.yaml", TASK)
    sets = ("tools.allow[0]=fs.read", "tools.allow[1]=fs.list", "models.executor[0]=claude-x")
    found = submit("task.yaml", sets=sets).spec
    assert found.tools.allow == ("fs.read", "fs.list")
    assert found.models.executor == ("claude-x",)
    revised = revise(
        found, Flags(sets=("tools.allow[1]=fs.find",)), surroundings=Surroundings(folder=None)
    ).spec
    assert revised.tools.allow == ("fs.read", "fs.find")
    with pytest.raises(InvalidInput, match=r"tools\.allow\[3\]: found nothing at this place"):
        revise(
            found, Flags(sets=("tools.allow[3]=fs.find",)), surroundings=Surroundings(folder=None)
        )


def test_a_workspace_is_relative_to_the_file(home: Path, submit: Load) -> None:
    (home / "work" / "sub" / "shop").mkdir(parents=True)
    write(home / "work" / "sub" / "task.yaml", "kind: agent\ngoal: g\nworkspace: shop")
    assert submit("sub/task.yaml").spec.workspace == str(home / "work" / "sub" / "shop")


def test_a_typo_in_the_kind_hides_nothing_else(home: Path, submit: Load) -> None:
    write(home / "work" / "perdure.yaml", "agent: {max_iterations: 3}")
    text = TASK.replace("kind: refine", "kind: refin").replace("max: 60", "maxx: 60")
    write(home / "work" / "task.yaml", text + "refine: {patience: 0}\nbudgett: {}\n")
    with pytest.raises(InvalidInput) as caught:
        submit("task.yaml")
    told = caught.value.message
    assert "has 4 problems" in told
    allowed = "one of agent, refine, roles, delegation"
    assert f'kind: found "refin"; allowed: {allowed}. Did you mean refine?' in told
    assert "rubric[0].evaluator.maxx: found the field maxx" in told
    assert "refine.patience: found 0; allowed: at least 1" in told
    assert "budgett: found the field budgett" in told


def test_a_typo_in_the_kind_alone_is_one_problem(home: Path, submit: Load) -> None:
    write(home / "work" / "task.yaml", "kind: agnt\ngoal: g\n")
    with pytest.raises(InvalidInput, match=r"has 1 problem:\n  kind: .*Did you mean agent"):
        submit("task.yaml")


@pytest.mark.parametrize("kind", ["rolls", "agents", 3])
def test_an_unknown_kind_lists_the_known_ones(kind: str | int) -> None:
    with pytest.raises(InvalidInput, match="agent, refine"):
        load_data({"kind": kind, "goal": "g"}, surroundings=Surroundings(folder=None))


def test_a_script_is_told_from_a_task(home: Path, submit: Load) -> None:
    write(home / "work" / "played.yaml", "replies: [{text: hello}]")
    with pytest.raises(InvalidInput, match="is a script of the scripted model") as caught:
        submit("played.yaml")
    assert "--model scripted:played.yaml" in str(caught.value.cure)


def test_a_missing_kind_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        InvalidInput, match="kind: found nothing; allowed: one of agent, delegation"
    ):
        load_data({"goal": "g"}, surroundings=Surroundings(folder=None))
