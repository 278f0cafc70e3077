"""The commands of the how-to pages, line by line as they stand, where what they speak of is there.

A page shows commands for things that its reader has: a task file, a run that waits, a skill that
a worker wrote. A walk brings these, and nothing else.
"""

import json
from collections.abc import Awaitable, Callable, Mapping

import pytest
import yaml
from drafts import COUNT, TEXT_SCHEMA

from tests.docs.newcomer import GATE, Newcomer
from tests.docs.test_blocks import FENCE, PAGES, ROOT

Scene = Callable[[Newcomer], Awaitable[object]]
LONG = pytest.mark.long
SLOW = pytest.mark.slow

BOTTLE = next(
    text for _, text in FENCE.findall((ROOT / "README.md").read_text("utf-8")) if "bottle" in text
)
POOR, GOOD = "A steel bottle.", "A steel bottle, warm in the hand, safe in the dishwasher."
APPROVED = {"quality_pass": True, "requirements_met": True, "findings": [], "rationale": "fine"}


def judged(dimension: str) -> dict[str, object]:
    return {"dimensions": [{"name": dimension, "score": 1.0, "gap": ""}], "findings": []}


def said(role: str, *, contains: str = "", **reply: object) -> dict[str, object]:
    """A reply of the script that may be given again and again."""
    when = {"role": role, **({"contains": contains} if contains else {})}
    return {"when": when, "times": 99, **reply}


COMMON = [
    said("executor", contains="haiku", text="Rain on the tin roof"),
    {"when": {"role": "executor", "iteration": 1}, "text": POOR},
    said("executor", text=GOOD),
    said("evaluator", contains="tone", json=judged("tone")),
    said("evaluator", json=judged("task")),
    said("plan", text="1. Mend it."),
    said("coder", text="Mended."),
    said("reviewer", json=APPROVED),
]
NOTES = [
    {"tool_calls": [{"name": "fs.write",
                     "arguments": {"path": "notes.md", "content": "Faster starts.\n",
                                   "expected_hash": "absent"}}]},
    {"text": "The notes are in notes.md."},
]  # fmt: skip
SKILL = "# Skill: Counting words\n\n## Purpose\nTo count words.\n\n" + "Split it at spaces. " * 20
TEAM = [
    {"when": {"role": "manager"}, "json": {
        "decision": "delegate", "reason": "so",
        "delegations": [{"worker": "w1", "instructions": "Count the words."}]}},
    {"when": {"role": "worker"}, "json": {
        "result": "three", "confidence": 0.9, "findings": ["There are three."],
        "skills_created": [{"markdown": SKILL}],
        "tools_needed": [{"name": "text.count", "code": COUNT, "schema": TEXT_SCHEMA,
                          "examples": [{"arguments": {"text": "a b"}, "result": {"words": 2}}]}]}},
    {"when": {"role": "manager"}, "json": {
        "decision": "complete", "reason": "so", "final_result": "Three.", "confidence": 0.9}},
]  # fmt: skip


def lines(text: str) -> list[str]:
    """The commands of a text, in their order; of consoles what stands behind the prompt."""
    found: list[str] = []
    for language, block in FENCE.findall(text):
        if language in ("sh", "bash", "console"):
            whole = block.replace("\\\n", " ").splitlines()
            found += [line[2:] for line in whole if line.startswith("$ ")] or whole
    return [line for line in found if line.strip()]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


async def walk(
    newcomer: Newcomer,
    text: str,
    scenes: Mapping[str, Scene] | None = None,
    endless: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What each command of a text printed; a scene is set before the line that begins so.

    A line of `endless` is ended once it has printed some words.
    """
    waiting, told, exported = dict(scenes or {}), dict[str, str](), ""
    for line in lines(text):
        for start in [start for start in waiting if line.startswith(start)]:
            await waiting.pop(start)(newcomer)
        if line.startswith("export "):
            exported += f"{line}\n"
            continue
        command = newcomer.told(line)
        until = next((end for start, end in (endless or {}).items() if line.startswith(start)), "")
        if until:
            told[line] = await newcomer.looked_at(f"{exported}exec {command}", until=until)
        else:
            told[line] = await newcomer.shell(exported + command)
    assert not waiting, "scenes for lines that the page does not have"
    return told


@pytest.fixture
async def owner(newcomer: Newcomer) -> Newcomer:
    """One with a first task, and a model that answers."""
    await newcomer.save("bottle.yaml", BOTTLE)
    await newcomer.save("replies.yaml", yaml.safe_dump({"replies": COMMON}))
    await newcomer.save("perdure.yaml", "models: {executor: scripted:replies.yaml}\n")
    return newcomer


async def task(one: Newcomer, name: str, replies: object, **fields: object) -> None:
    """A task with a script of its own."""
    await one.save(f"{name}-replies.yaml", yaml.safe_dump({"replies": replies}))
    models = {"executor": f"scripted:{name}-replies.yaml"}
    await one.save(f"{name}.yaml", yaml.safe_dump({**fields, "models": models}))


async def a_run_that_waits(one: Newcomer) -> None:
    tools = {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]}
    await task(one, "notes", NOTES, kind="agent", goal="Write notes.", workspace=".", tools=tools)
    await one.shell("perdure run notes.yaml --detach")
    while not GATE.search(await one.shell("perdure gates")):
        pass


async def a_changed_folder(one: Newcomer) -> None:
    await a_run_that_waits(one)
    await one.shell(one.told("perdure answer g1-0000 approve") + " && perdure watch @last")


async def a_run_of_two_iterations(one: Newcomer) -> None:
    await one.shell("perdure run bottle.yaml")


async def a_run_under_way(one: Newcomer) -> None:
    rubric = [{"name": "gold", "evaluator": {"check": "contains", "all": ["gold"]}}]
    refine = {"max_iterations": 99, "termination": {"type": "max_iterations", "limit": 99}}
    slow = [said("executor", text=POOR, delay_s=2)]
    await task(one, "slow", slow, kind="refine", goal="Praise.", rubric=rubric, refine=refine)
    await one.shell("perdure run slow.yaml --detach")


async def a_failed_run(one: Newcomer) -> None:
    await task(one, "mute", [{"error": "bad_request"}], kind="agent", goal="Say nothing.")
    await one.shell("perdure run mute.yaml || true")


async def work_of_a_team(one: Newcomer) -> None:
    settings = {"critique": {"enabled": False}}
    await task(one, "team", TEAM, kind="delegation", goal="Count the words.", delegation=settings,
               tools={"access": "readonly"})  # fmt: skip
    await one.shell("perdure run team.yaml")


async def something_remembered(one: Newcomer) -> None:
    listed = json.loads(await one.shell("perdure memory list --json"))
    one.knows["3f2a"] = listed["entries"][0]["id"][:6]


async def the_file_of_a_skill(one: Newcomer) -> None:
    (text,) = [
        text for language, text in FENCE.findall(page("commands.md")) if language == "markdown"
    ]
    await one.save("rate-limits.md", text)
    await work_of_a_team(one)


async def a_store_of_objects(one: Newcomer) -> None:
    await one.shell("perdure down")
    (one.folder / "objects").mkdir()
    one.environment["PERDURE_BLOBS"] = f"file://{one.folder}/objects"
    await one.shell("perdure up --detach")


@SLOW
async def test_the_command_line(owner: Newcomer) -> None:
    told = await walk(
        owner,
        page("commands.md"),
        {
            "perdure diff @last": a_changed_folder,
            "perdure list --status running": a_run_of_two_iterations,
            "perdure gates": a_run_that_waits,
            "perdure pause all": a_run_under_way,
            "perdure retry @last": a_failed_run,
            "perdure fork @last": a_run_of_two_iterations,
            "perdure memory forget": something_remembered,
            "perdure skills add": the_file_of_a_skill,
            "perdure move-blobs": a_store_of_objects,
        },
        {"perdure logs worker --follow": "worker_polls"},
    )
    shown = {line.partition("  ")[0]: text for line, text in told.items()}
    assert "score 0.75" in shown["perdure history @last"]
    assert GOOD in shown["perdure result @last"]
    assert "notes.md" in shown["perdure diff @last"]
    assert "taken by 1 of 1 runs" in shown["perdure pause all"]
    assert "usable" in shown["perdure doctor"]
    assert "moved 0" not in shown["perdure move-blobs"]


@pytest.mark.slow
@LONG
async def test_the_inbox_of_the_readme(owner: Newcomer) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [block for block in FENCE.findall(text) if "perdure gates" in block[1]]
    told = await walk(
        owner,
        f"```sh\n{block[1]}```",
        {"perdure gates": a_run_that_waits, "perdure amend": a_run_under_way},
    )
    assert "now running" in told["perdure answer g1-7f3a approve"]


async def an_experiment(one: Newcomer) -> None:
    (text, *_) = [text for language, text in FENCE.findall(page("experiments.md"))]
    await one.save("experiment.yaml", text)
    inputs = [json.dumps({"id": f"p{number}", "material": "steel"}) for number in range(50)]
    await one.save("products.jsonl", "\n".join(inputs))
    # So dear that the budget of the page holds a few trials.
    price = {"input_per_million": 80, "output_per_million": 80}
    await one.save("replies.yaml", yaml.safe_dump({"price": price, "replies": COMMON}))


async def its_name(one: Newcomer) -> None:
    listed = json.loads(await one.shell("perdure experiment list --json"))
    one.knows["ID"] = listed["experiments"][0]["id"]


@SLOW
async def test_an_experiment(owner: Newcomer) -> None:
    told = await walk(
        owner,
        page("experiments.md"),
        {
            "perdure experiment experiment.yaml --dry-run": an_experiment,
            "perdure experiment resume": its_name,
        },
    )
    shown = list(told.values())
    assert "Nothing was started." in shown[0]
    assert "its budget does not pay for another run" in shown[1]
    assert "loop beats single by 0.25" in shown[1]
    assert "of $10.00" in shown[2]


async def plugins(one: Newcomer) -> None:
    texts = [text for language, text in FENCE.findall(page("extending.md")) if language == "python"]
    for name in ("mytools.py", "tools/mytools.py"):
        file = one.folder / name if "/" not in name else one.folder.parent / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n\n".join(texts[:2] if "/" not in name else ["X = 1"]))
    plain = {"name": "plain", "evaluator": {"check": "acme.plain", "most": 1}}
    await task(one, "task", COMMON, kind="refine", goal="Praise.", rubric=[plain])


@pytest.mark.slow
@LONG
async def test_plugins(owner: Newcomer) -> None:
    told = await walk(owner, page("extending.md"), {"perdure run task.yaml": plugins})
    assert "quality met" in next(iter(told.values()))
    assert "mytools.py" in (owner.folder / "perdure.yaml").read_text()


@SLOW
async def test_tools_that_workers_wrote(owner: Newcomer) -> None:
    told = await walk(owner, page("made-tools.md"), {"perdure tools  ": work_of_a_team})
    listed, shown, approved = told.values()
    assert "text.count" in listed and "def handler" in shown
    assert "later runs may use text.count" in approved


async def a_project_of_before(one: Newcomer) -> None:
    await one.shell("perdure loops start harness 'Build a cache'")


@SLOW
async def test_projects(owner: Newcomer) -> None:
    told = await walk(owner, page("tools.md"), {"perdure loops start harness": a_project_of_before})
    assert "No projects." in told["perdure projects"]
    assert "build-a-cache" in await owner.shell("perdure projects")


async def runs_of_a_customer(one: Newcomer) -> None:
    await one.shell("perdure run bottle.yaml --set metadata.label=customer-17")
    await one.shell("perdure run 'Greet Ada Lovelace in a haiku.' --iterate 1")
    listed = json.loads(await one.shell("perdure list --json"))
    one.knows["RUN"] = next(run["id"] for run in listed["runs"] if run["label"] is None)


@SLOW
async def test_keep_and_erase(owner: Newcomer) -> None:
    told = await walk(owner, page("retention.md"), {"perdure erase RUN": runs_of_a_customer})
    shown, erased, none_left, labelled, resumed = list(told.values())[-5:]
    assert "would erase" in shown and "erased" in erased
    assert none_left == "No run fits.\n"
    # The run, and the one that learned from it.
    assert "2 runs: refine-bottle-" in labelled
    assert resumed == "No erasure was broken off.\n"


async def news(one: Newcomer) -> None:
    await one.save("news.yaml", BOTTLE)


@SLOW
async def test_schedules(owner: Newcomer) -> None:
    told = await walk(owner, page("schedules.md"), {"perdure schedule create news": news})
    shown = list(told.values())
    assert "Europe/Berlin" in shown[0] and "every 7 d" in shown[1]
    assert "started news-" in shown[4] and "on holiday" in shown[5]
    assert (await owner.shell("perdure schedule list")).count("news") == 0


@SLOW
async def test_a_worker_with_rates(owner: Newcomer) -> None:
    await owner.shell("perdure up --detach && perdure run bottle.yaml")
    told = await walk(owner, page("operations.md"), endless={"perdure worker": "worker_polls"})
    assert "claude-opus" in told["perdure worker"]


WALKED = {
    "README.md": "tests/docs/test_first_walk.py",
    "backends.md": "tests/docs/test_backends.py",
    "cli-reference.md": "tests/docs/test_pages.py",  # made from the program, no commands to run
    "commands.md": "tests/docs/test_walks.py",
    "experiments.md": "tests/docs/test_walks.py",
    "extending.md": "tests/docs/test_walks.py",
    "index.md": "tests/interfaces/cli/commands/test_demo.py",
    "made-tools.md": "tests/docs/test_walks.py",
    "models.md": "tests/workflows/test_one_model_through_two_clients.py",
    "operations.md": "tests/docs/test_walks.py",
    "page.md": "tests/browser/test_single_sign_on.py",
    "promises.md": "tests/chaos/test_worker_killed.py",
    "rest.md": "tests/docs/test_rest.py",
    "retention.md": "tests/docs/test_walks.py",
    "schedules.md": "tests/docs/test_walks.py",
    "temporal-cloud.md": "tests/docs/test_temporal_cloud.py",
    "temporal.md": "tests/docs/test_temporal_clients.py",
    "tools.md": "tests/docs/test_walks.py",
    "tutorial.md": "tests/docs/test_first_walk.py",
}
"""Pages that show commands, and what runs them."""


def test_every_page_with_commands_is_walked() -> None:
    assert {one.name for one in PAGES if lines(one.read_text("utf-8"))} == WALKED.keys()
    assert all((ROOT / test).is_file() for test in WALKED.values())
