"""Looking commands: what is shown, as text and as JSON, and the exit codes."""

import asyncio
import json
import shlex

import pytest
from inline_snapshot import snapshot

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.result import Mark
from perdure.domain.run.status import StoredRun
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import (
    NOW,
    RECORDS,
    RUN,
    gate,
    patch_result,
    record,
    result,
    status,
)

SPEC = f"sha256:{9:064x}"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("status",), "executing · iteration 2/6"),
        (("status", "refine-st"), "executing · iteration 2/6"),
        (("history", RUN), "2★   0.89  accept"),
        (("costs", RUN), RUN),
        (("result", "@last"), "[done] 2 iterations, 38k tokens, $0.32 · quality met"),
        (("list",), RUN),
        (("gates",), "Nothing waits for a person."),
        (("explain", RUN), "Why it stopped (accepted/quality_met)"),
        (("transcript", RUN), "transcript 066"),
        (("transcript", RUN, "--iteration", "1"), "transcript 065"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_pipe_gets_plain_text(perdure: Installation, argv: tuple[str, ...], told: str) -> None:
    assert perdure.run(*argv) == 0
    assert told in perdure.out
    assert "\x1b" not in perdure.out + perdure.err


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (("status", RUN), "lifecycle"),
        (("costs", RUN), "by_phase"),
        (("result", RUN), "outcome"),
        (("list",), "runs"),
        (("gates",), "gates"),
        (("explain", RUN), "would_change"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_programs_get_one_json_line(
    perdure: Installation, argv: tuple[str, ...], field: str
) -> None:
    assert perdure.run(*argv, "--json") == 0
    assert field in json.loads(perdure.out)
    assert perdure.err == ""


def test_a_history_is_one_json_object(perdure: Installation) -> None:
    assert perdure.run("history", RUN, "--json") == 0
    told = json.loads(perdure.out)
    assert (told["type"], told["run"]) == ("history", RUN)
    assert [item["index"] for item in told["iterations"]] == [1, 2]


def test_a_terminal_gets_colours(perdure: Installation) -> None:
    assert perdure.run("status", RUN, terminal=True) == 0
    assert "\x1b[" in perdure.out


def test_list_passes_its_filters_on(perdure: Installation) -> None:
    argv = ("--status", "waiting", "--kind", "refine", "--label", "x", "--limit", "3")
    assert perdure.run("list", *argv) == 0
    [wanted] = perdure.gateway.filters
    assert wanted is not None
    assert wanted.model_dump(exclude_defaults=True) == {
        "status": "waiting",
        "kind": "refine",
        "label": "x",
        "limit": 3,
    }
    assert perdure.run("list", "--status", "sleeping") == 2
    assert "sleeping" in perdure.err


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--label=x y", "--status=running", "--limit=1"),
        ("--kind=refine", "--label=-x", "--outcome=failed", "--phase=executing", f"--root={RUN}"),
    ],
    ids=["none", "some", "others"],
)
def test_more_of_a_list_are_those_that_were_asked_for(
    perdure: Installation, options: tuple[str, ...]
) -> None:
    many = [f"agent-many-{number:04}" for number in range(40)]
    perdure.gateway.statuses = {run: status(id=run) for run in (RUN, *many)}
    assert perdure.run("list", *options) == 0
    more = shlex.split(perdure.out.partition("more: perdure ")[2])
    assert sorted(more[1:-2]) == sorted(options)
    assert perdure.run(*more) == 0
    first, *_, last = perdure.gateway.filters
    assert first is not None and last is not None
    assert last.cursor is not None
    assert last == first.model_copy(update={"cursor": last.cursor})


@pytest.mark.parametrize(("limit", "shown"), [(3, 3), (500, 500), (1_100, 1_100), (5_000, 1_234)])
def test_a_list_has_as_many_runs_as_its_limit(
    perdure: Installation, limit: int, shown: int
) -> None:
    ids = [f"agent-many-{number:04}" for number in range(1_234)]
    perdure.gateway.statuses = {run: status(id=run) for run in ids}
    assert perdure.run("list", "--limit", str(limit), "--json") == 0
    page = json.loads(perdure.out)
    assert [row["id"] for row in page["runs"]] == ids[:shown]
    assert (page.get("cursor") is None) == (shown == len(ids))


@pytest.mark.parametrize("limit", ["0", "-3", "1000001"])
@pytest.mark.parametrize(
    "listing",
    ["list", "sessions", "projects", "notices", "memory list", "memory search tea", "audit"],
)
def test_a_limit_that_lists_nothing_is_refused(
    perdure: Installation, listing: str, limit: str
) -> None:
    assert perdure.run(*listing.split(), "--limit", limit) == 2
    assert f'Invalid value "{limit}" for --limit' in perdure.err


def test_gates_say_how_to_answer(perdure: Installation) -> None:
    perdure.gateway.statuses[RUN] = status(gates=(gate(),))
    assert perdure.run("gates") == 0
    assert f"perdure answer {RUN}:g1-abab CHOICE  (approve, deny)" in perdure.out


OTHER = "agent-other-9c1d"


@pytest.fixture
def two_that_wait(perdure: Installation) -> Installation:
    """Two runs with a question each; that of the first is longer than its prompt."""
    perdure.blobs.texts["sha256:" + "5" * 64] = "+ the whole file"
    long = gate(prompt="May fs.write?\n[… cut]", details=BlobRef(hash="sha256:" + "5" * 64))
    tea = gate(kind="question", prompt="Which tea?", choices=(), free_text=True, args_hash=None)
    perdure.gateway.statuses = {
        RUN: status(gates=(long,)),
        OTHER: status(id=OTHER, kind="agent", goal="make tea", gates=(tea,)),
        "agent-busy-1": status(id="agent-busy-1"),
    }
    return perdure


@pytest.mark.parametrize("named", [RUN, "refine-steel", "@last"])
def test_gates_of_one_run_are_its_own(two_that_wait: Installation, named: str) -> None:
    assert two_that_wait.run("gates", named) == 0
    assert f"{RUN}:g1-abab" in two_that_wait.out
    assert "Which tea?" not in two_that_wait.out
    assert two_that_wait.run("gates", named, "--json") == 0
    (found,) = json.loads(two_that_wait.out)["gates"]
    assert (found["run"], found["gate"]["id"], found["goal"]) == (RUN, "g1", status().goal)
    assert two_that_wait.run("gates") == 0
    assert "Which tea?" in two_that_wait.out


def test_gates_in_full_show_what_the_prompt_cuts(two_that_wait: Installation) -> None:
    assert two_that_wait.run("gates", RUN) == 0
    assert "+ the whole file" not in two_that_wait.out
    assert two_that_wait.run("gates", RUN, "--full") == 0
    assert "+ the whole file" in two_that_wait.out
    assert f"hash of the call: {'ab' * 32}" in two_that_wait.out
    assert "[… cut]" not in two_that_wait.out


def test_gates_of_a_run_that_asks_nothing_or_is_not_there(two_that_wait: Installation) -> None:
    assert two_that_wait.run("gates", "agent-busy-1") == 0
    assert two_that_wait.out == "Nothing waits for a person.\n"
    assert two_that_wait.run("gates", "nobody") == 4
    assert "There is no run nobody." in two_that_wait.err


def test_the_result_of_a_bad_ending_has_exit_code_1(perdure: Installation) -> None:
    perdure.gateway.results[RUN] = result(outcome="failed", reason="refusal")
    assert perdure.run("result", RUN) == 1
    assert perdure.run("result", RUN, "--json") == 1
    assert json.loads(perdure.out)["reason"] == "refusal"


def test_a_run_that_goes_on_has_no_result(perdure: Installation) -> None:
    perdure.gateway.results.clear()
    assert perdure.run("result", RUN) == 5
    assert perdure.run("explain", RUN) == 5
    assert perdure.err == snapshot(
        "error: The run refine-steel-bottle-7f3a has not ended yet.\n→ Watch it.\n"
    )


def test_artifacts_are_found_by_a_beginning(perdure: Installation) -> None:
    perdure.blobs.texts[f"sha256:{2:064x}"] = "second\x1b[2J"
    assert perdure.run("artifact", RUN, f"sha256:{2:064x}") == 0
    assert perdure.out == "second\x1b[2J\n"
    assert perdure.run("artifact", RUN, f"{2:064x}", terminal=True) == 0
    assert perdure.out == "second<U+001B>[2J\n"
    assert perdure.run("artifact", RUN, "sha256:ff") == 4
    assert "Its references: sha256:" in perdure.err


@pytest.mark.parametrize(
    "output",
    ["a:\n\tb\tc\n", "two blanks  \nend a line  ", "x" * 25_000, "  indented\n\n\nfar below"],
    ids=["tabs", "blanks", "a long line", "empty lines"],
)
def test_a_pipe_gets_the_output_as_it_is(perdure: Installation, output: str) -> None:
    perdure.gateway.results[RUN] = result(output=output)
    assert perdure.run("result", RUN) == 0
    assert perdure.out.startswith(output.rstrip("\n") + "\n\n[done]")


def test_diff_shows_two_iterations(perdure: Installation) -> None:
    perdure.blobs.texts[f"sha256:{1:064x}"] = "one\n"
    perdure.blobs.texts[f"sha256:{2:064x}"] = "two\n"
    for argv in (("diff", RUN), ("diff", RUN, "1", "2"), ("diff", RUN, "1")):
        assert perdure.run(*argv) == 0
        assert "-one\n+two" in perdure.out
        assert "overall           0.73         0.89   +0.16" in perdure.out
    assert perdure.run("diff", RUN, "1", "7") == 2
    assert "It has: 1, 2." in perdure.err
    perdure.gateway.iterations = RECORDS[:1]
    assert perdure.run("diff", RUN) == 4


def test_the_best_iteration_is_the_one_that_the_run_takes_for_it(perdure: Installation) -> None:
    # The rubric was changed after the first, whose draft is scored anew: by then lower.
    perdure.gateway.iterations = (record(1, 0.95), record(2, 0.4), record(3, 0.8), record(4, 0.6))
    perdure.gateway.statuses[RUN] = status(best=Mark(iteration=3, score=0.8))
    perdure.blobs.texts = {f"sha256:{index:064x}": f"draft {index}\n" for index in range(1, 5)}
    assert perdure.run("history", RUN) == 0
    assert "3★" in perdure.out and "1★" not in perdure.out
    assert perdure.run("diff", RUN) == 0
    assert "-draft 1\n+draft 3" in perdure.out


def test_a_difference_in_line_ends_is_told(perdure: Installation) -> None:
    for second, told in (("one\r\n", "differ in their line ends"), ("one\n", "are the same")):
        perdure.blobs.texts = {f"sha256:{1:064x}": "one\n", f"sha256:{2:064x}": second}
        assert perdure.run("diff", RUN, "1", "2") == 0
        assert told in perdure.out


def test_changes_go_to_the_folder_that_the_run_worked_on(perdure: Installation) -> None:
    perdure.remembers = True
    perdure.gateway.results[RUN] = patch_result()
    (project := perdure.folder / "project").mkdir()
    spec = AgentSpec(kind="agent", goal="Change it.", workspace=str(project))
    perdure.blobs.texts[SPEC] = spec.model_dump_json(by_alias=True)

    async def keep() -> None:
        stores = await open_stores(perdure.folder / "home")
        row = StoredRun(
            id=RUN, kind="agent", goal=spec.goal, label=None, outcome="accepted",
            lifecycle="completed", started_at=NOW, spec=SPEC,
        )  # fmt: skip
        await stores.records.put_run(row)
        await stores.close()

    asyncio.run(keep())

    assert perdure.run("apply", RUN) == 0, perdure.err
    assert perdure.workspaces.applied[-1][-1] == str(project)
    assert perdure.run("apply", RUN, "--to", ".") == 0
    assert perdure.workspaces.applied[-1][-1] == str(perdure.folder)
    project.rmdir()
    done = len(perdure.workspaces.applied)
    assert perdure.run("apply", RUN) == 2, "it was on another host"
    assert f"{RUN} worked on {project}" in perdure.err and "--to FOLDER" in perdure.err
    assert len(perdure.workspaces.applied) == done
    assert perdure.run("apply", RUN, "--to", ".") == 0


def test_diff_and_apply_of_a_run_that_wrote_files(perdure: Installation) -> None:
    perdure.remembers = True
    perdure.gateway.results[RUN] = patch_result()
    perdure.blobs.texts[f"sha256:{7:064x}"] = "--- a\n+++ b\n+line\n"
    assert perdure.run("diff", RUN) == 0
    assert perdure.out == "--- a\n+++ b\n+line\n"
    assert perdure.run("apply", RUN) == 0
    assert perdure.workspaces.applied == [("sha256:base", f"sha256:{8:064x}", str(perdure.folder))]
    assert "✓ README.md" in perdure.out


def test_a_pipe_gets_the_very_patch(perdure: Installation) -> None:
    perdure.gateway.results[RUN] = patch_result()
    patch = "--- a/Makefile\n+++ b/Makefile\n all:\n \n+\tgcc x.c  \n+one\u2028-two\r\n"
    perdure.blobs.texts[f"sha256:{7:064x}"] = patch
    assert perdure.run("diff", RUN) == 0
    assert perdure.out == patch
    assert perdure.run("diff", RUN, "--json") == 0
    assert json.loads(perdure.out)["patch"] == patch
    assert perdure.run("diff", RUN, terminal=True) == 0
    assert "+one<U+2028>-two" in perdure.out, "what follows that sign is no line of its own"


def test_apply_without_files_is_not_allowed(perdure: Installation) -> None:
    perdure.remembers = True
    assert perdure.run("apply", RUN) == 5
    assert "wrote no files" in perdure.err


def test_a_service_that_is_away_has_exit_code_3(perdure: Installation) -> None:
    perdure.connect_error = ServiceUnavailable("The server is away.", cure="perdure up --detach")
    assert perdure.run("status", RUN) == 3
    assert perdure.err == snapshot("error: The server is away.\n→ perdure up --detach\n")


def test_the_costs_of_a_period_are_a_table_or_a_file(perdure: Installation) -> None:
    perdure.remembers = True
    assert perdure.run("costs", "--by", "label", "--since", "2026-01-01") == 0
    assert "No model was called from 2026-01-01 to " in perdure.out
    assert perdure.run("costs", "--csv", "--by", "model") == 0
    assert [line.partition(",")[0] for line in perdure.out.splitlines()] == ["model", "(total)"]
    assert perdure.run("costs", "--csv", "--json") == 2
    assert "--csv and --json contradict each other" in perdure.err
    assert perdure.run("costs", "--by", "kind", "--json") == 0
    assert json.loads(perdure.out)["by"] == "kind"
    assert perdure.run("costs", "--by", "run", "--label", "docs", "--model", "m", "--json") == 0
    only = json.loads(perdure.out)["only"]
    assert (only["label"], only["model"]) == ("docs", "m")
    assert perdure.run("costs", "--kind", "refine") == 0
    assert "No model was called" in perdure.out


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ((RUN, "--by", "day"), "for all runs together"),
        (("--since", "2026-02-02", "--until", "2026-01-01"), "is after the last day"),
    ],
)
def test_the_costs_of_a_wrong_period_are_refused(
    perdure: Installation, argv: tuple[str, ...], told: str
) -> None:
    assert perdure.run("costs", *argv) != 0
    assert told in perdure.err
