"""Running and watching: what is started, what is told, how it ends."""

import asyncio
import json
import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot
from live_calls import live_call

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import InvalidInput, NoReadyWorker, ServiceUnavailable
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.live_text import LiveCall
from perdure.interfaces import live_text
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN, event, gate, result, status

TASK = """\
kind: refine
goal: Write a product text.
rubric:
  - {name: short, evaluator: {check: length, unit: words, max: 60}}
"""


def test_a_goal_in_words_runs_as_agent_and_ends_with_its_result(perdure: Installation) -> None:
    assert perdure.run("run", "say hello") == 0
    [spec] = perdure.gateway.started
    assert isinstance(spec, AgentSpec)
    assert spec.goal == "say hello"
    assert perdure.calls == ["connect", "start", "disconnect"]
    assert perdure.out == snapshot("""\
[start] Write a product text for a steel water bottle.
[iter 1/6] score 0.73
[iter 2/6] score 0.89
A bottle of steel.
Goes into the dishwasher.

[done] 2 iterations, 38k tokens, $0.32 · quality met  ▆▇
run     refine-steel-bottle-7f3a
why     The result reached the quality that was asked for. (accepted/quality_met)
score   0.89 in iteration 2
spend   38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active of 5.5 s
saved   24k input tokens (40 % of a loop that resends all), 1 judge call
models  claude-sonnet-4-5
Web UI  http://127.0.0.1:8233/refine-steel-bottle-7f3a
next    perdure explain refine-steel-bottle-7f3a
""")
    assert perdure.err == snapshot("started refine-steel-bottle-7f3a\n")


def test_a_file_and_flags(perdure: Installation) -> None:
    (perdure.folder / "task.yaml").write_text(TASK, encoding="utf-8")
    flags = ("--quality", "0.9", "--budget", "0.25", "--iterate", "4")
    sets = ("--set", "budget.tokens=5000", "--set", "recall=false")
    assert perdure.run("run", "task.yaml", *flags, *sets, "--model", "local") == 0
    [spec] = perdure.gateway.started
    assert isinstance(spec, RefineSpec)
    assert (spec.refine.quality_threshold, spec.refine.max_iterations) == (0.9, 4)
    assert (str(spec.budget.cost_usd), spec.budget.tokens) == ("0.25", 5_000)
    assert spec.recall is False
    assert spec.models.executor == "local"


def test_programs_get_events_and_the_result_last(perdure: Installation) -> None:
    assert perdure.run("run", "say hello", "--json") == 0
    lines = [json.loads(line) for line in perdure.out.splitlines()]
    assert [line["type"] for line in lines] == [
        "run_started",
        "iteration_completed",
        "iteration_completed",
        "ended",
        "result",
    ]
    assert lines[-1]["id"] == RUN
    assert perdure.err == ""


def test_trouble_is_told_and_never_among_the_output_of_programs(perdure: Installation) -> None:
    perdure.gateway.trouble = "attempt 2 of 8: connection refused; next in 4 s"
    assert perdure.run("watch", RUN) == 0
    assert perdure.gateway.trouble in perdure.err
    assert perdure.run("watch", RUN, terminal=True) == 0
    assert perdure.gateway.trouble in perdure.out
    assert perdure.run("watch", RUN, "--json") == 0
    assert perdure.gateway.trouble in perdure.err
    assert "attempt 2" not in perdure.out


def test_detach_prints_the_id_alone(perdure: Installation) -> None:
    assert perdure.run("run", "say hello", "--detach", "--id", "agent-hello-1") == 0
    assert perdure.out == "agent-hello-1\n"
    assert "perdure watch agent-hello-1" in perdure.err
    assert "perdure open agent-hello-1" in perdure.err
    assert perdure.run("run", "say hello", "--detach", "--json") == 0
    assert json.loads(perdure.out) == {
        "type": "started",
        "run": RUN,
        "web_url": f"http://127.0.0.1:8233/{RUN}",
    }


@pytest.mark.parametrize(
    ("outcome", "reason", "code"),
    [
        ("accepted", "quality_met", 0),
        ("best_effort", "max_iterations", 0),
        ("out_of_budget", "cost", 0),
        ("deadline", "wall_time", 0),
        ("regressed", "regression", 0),
        ("stopped", "stopped", 0),
        ("failed", "model_error", 1),
        ("tool_misuse", "tool_loop", 1),
        ("no_output", "no_output", 1),
        ("blocked", "blocked", 1),
        ("unanswered", "gate_expired", 1),
    ],
)
def test_the_outcome_decides_the_exit_code(
    perdure: Installation, outcome: str, reason: str, code: int
) -> None:
    perdure.gateway.results[RUN] = result(outcome=outcome, reason=reason)
    assert perdure.run("run", "say hello") == code
    assert perdure.run("watch", RUN) == code


def test_every_problem_of_a_task_is_told_before_anything_starts(perdure: Installation) -> None:
    text = TASK.replace("max: 60", "mx: 60").replace("goal:", "gaol:")
    (perdure.folder / "bad.yaml").write_text(text, encoding="utf-8")
    for argv in (("run", "bad.yaml"), ("validate", "bad.yaml"), ("run", "--dry-run", "bad.yaml")):
        assert perdure.run(*argv) == 2
        assert "gaol" in perdure.err
        assert "rubric[0].evaluator.mx" in perdure.err
    assert perdure.calls == []
    assert perdure.run("run", "no.yaml") == 4


def test_a_wrong_name_is_told_before_services_start(perdure: Installation) -> None:
    perdure.gateway.check_error = InvalidInput("models.executor: nobody knows clod-9.")
    assert perdure.run("run", "say hello", "--model", "clod-9") == 2
    assert "nobody knows clod-9" in perdure.err
    assert "start" not in perdure.calls
    assert perdure.gateway.started == []


def test_without_a_worker_nothing_starts(perdure: Installation) -> None:
    perdure.gateway.start_error = NoReadyWorker("Nobody works on q.", cure="perdure worker")
    assert perdure.run("run", "say hello") == 3
    assert "error: Nobody works on q.\n→ perdure worker" in perdure.err


def test_dry_run_plans_and_starts_nothing(perdure: Installation) -> None:
    (perdure.folder / "task.yaml").write_text(TASK, encoding="utf-8")
    assert perdure.run("run", "--dry-run", "task.yaml") == 0
    assert "Nothing: this model costs no money." in perdure.out
    assert "ready to run" in perdure.out
    assert perdure.gateway.started == []
    assert perdure.calls == ["connect", "disconnect"]
    perdure.gateway.unready = True
    assert perdure.run("run", "--dry-run", "task.yaml", "--json") == 3
    plan = json.loads(perdure.out)
    assert plan["queues"][0]["ready"] is False
    assert plan["worst"]["cost_usd"] == "2.00"


def test_a_dry_run_without_services_shows_the_plan_and_what_starts_them(
    perdure: Installation,
) -> None:
    (perdure.folder / "task.yaml").write_text(TASK, encoding="utf-8")
    perdure.gateway.away = ServiceUnavailable("Nothing answers.", cure="`perdure up` starts it.")
    assert perdure.run("run", "--dry-run", "task.yaml") == 0
    assert "Nothing: this model costs no money." in perdure.out
    told = "readiness unknown: nobody could be asked. Nothing answers. `perdure up` starts it."
    assert told in " ".join(perdure.out.split())
    assert "ready to run" not in perdure.out
    assert "queue  serves" not in perdure.out
    assert perdure.calls == ["connect", "disconnect"]
    assert perdure.run("run", "--dry-run", "task.yaml", "--json") == 0
    assert json.loads(perdure.out)["queues"] == []


def test_settings_without_effect_are_named_by_every_way_to_look_at_a_task(
    perdure: Installation,
) -> None:
    (perdure.folder / "task.yaml").write_text(TASK + "budget: {workers: 3}\n", encoding="utf-8")
    for argv in (
        ("run", "task.yaml"),
        ("validate", "task.yaml"),
        ("run", "task.yaml", "--dry-run"),
    ):
        assert perdure.run(*argv) == 0
        told = " ".join((perdure.out + perdure.err).split())
        assert "budget.workers: 3 has no effect in this version" in told


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("argv", [("run", "say hello"), ("watch", RUN)])
def test_ctrl_c_leaves_the_run_going(
    perdure: Installation, argv: tuple[str, ...], error: BaseException
) -> None:
    perdure.gateway.follow_error = error
    assert perdure.run(*argv) == 130
    assert f"The run goes on. Watch it: perdure watch {RUN}" in perdure.err


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_even_twice_closes_what_was_opened(
    perdure: Installation, flags: tuple[str, ...], sent: signal.Signals
) -> None:
    perdure.gateway.signalled = sent
    assert perdure.run("watch", RUN, *flags) == 128 + sent
    assert perdure.calls == ["connect", "disconnect"]
    assert flags or "The run goes on." in perdure.err  # a program reads the exit code


def test_a_server_that_goes_away_leaves_the_run_going(perdure: Installation) -> None:
    perdure.gateway.follow_error = ServiceUnavailable("The server is away.", cure="perdure up")
    assert perdure.run("watch", RUN) == 3
    assert "The run goes on." in perdure.err


@pytest.fixture
def slow_story(perdure: Installation) -> Callable[[], None]:
    """Events that come one by one, with the status moving on between them."""
    told = [
        event(1, "run_started", kind="refine"),
        event(2, "iteration_completed", score=0.5),
        event(3, "gate_opened", gate="g1", kind="budget", prompt="More?"),
        event(4, "ended", outcome="accepted", reason="quality_met"),
    ]

    def ask() -> None:
        perdure.gateway.happened = told
        perdure.gateway.statuses[RUN] = status(gates=(gate(),))

    return ask


def test_a_terminal_gets_a_live_picture_and_the_story_above_it(
    perdure: Installation, slow_story: Callable[[], None]
) -> None:
    slow_story()
    assert perdure.run("watch", RUN, terminal=True) == 0
    assert "[iter 1/6]" in perdure.out
    assert "✓ line 1" in perdure.out
    assert f"perdure answer {RUN}:g1" in perdure.out
    assert "[done]" in perdure.out
    assert "\x1b[" in perdure.out


def test_an_error_while_live_is_told_once(
    perdure: Installation, slow_story: Callable[[], None]
) -> None:
    slow_story()
    perdure.gateway.follow_error = ServiceUnavailable("The server is away.")
    assert perdure.run("watch", RUN, terminal=True) == 3
    assert perdure.err.count("The server is away.") == 1


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("resume-parsing", "--example"), "refine-resume-parsing-"),
        (("définition-du-thé.yaml",), "refine-definition-"),
        (("sub/notes.yaml",), "refine-notes-"),
        (("release-notes", "--example"), "refine-release-notes-"),
        (("say hello",), None),
    ],
)
def test_a_run_of_a_file_is_named_by_it(
    perdure: Installation, words: tuple[str, ...], begins: str | None
) -> None:
    (perdure.folder / "sub").mkdir()
    for name in ("définition-du-thé.yaml", "sub/notes.yaml"):
        (perdure.folder / name).write_text(TASK, encoding="utf-8")
    perdure.run("run", *words, "--detach")
    named = perdure.gateway.named
    assert named == [] if begins is None else [one for one in named if one.startswith(begins)]


SPOKEN = (
    live_call(run=RUN, text="so \x1b[2Jfar\n"),
    live_call("judge", run=f"{RUN}.w1-reader", role="judge", worker="reader", start=7, text="fine"),
)


def _speaks(perdure: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    async def below(run: str) -> tuple[LiveCall, ...]:
        return SPOKEN

    async def nothing(*_: object) -> None: ...

    texts = SimpleNamespace(below=below, watch=nothing, prune=nothing)
    monkeypatch.setattr(perdure, "live", texts)
    monkeypatch.setattr(live_text, "LAST_LOOK_AFTER_S", 0)


def test_text_of_calls_is_printed_under_their_names(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    _speaks(perdure, monkeypatch)
    assert perdure.run("watch", RUN, "--text") == 0
    own = f"[{RUN} · iteration 1 · executor · executing · m]\nso \x1b[2Jfar\n"
    below = (
        f"[{RUN}.w1-reader · iteration 1 · reader · executing · m]\n[7 characters left out]\nfine\n"
    )
    assert perdure.out.startswith(own + below)
    assert "accepted" in perdure.out
    assert perdure.run("watch", RUN, "--text", terminal=True) == 0
    assert "so " in perdure.out and "\x1b[2J" not in perdure.out


def test_text_of_calls_is_one_json_object_per_piece(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    _speaks(perdure, monkeypatch)
    assert perdure.run("watch", RUN, "--text", "--json") == 0
    told = [json.loads(row) for row in perdure.out.splitlines()]
    assert [one.get("type") for one in told[:-1]] == ["call_started", "text"] * 2
    assert told[1]["text"] == "so \x1b[2Jfar\n"
    assert told[-1]["outcome"] == "accepted"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_keeps_a_run_is_told_beside_its_text(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    _speaks(perdure, monkeypatch)
    perdure.gateway.trouble = "no worker serves the queue"
    perdure.gateway.statuses[RUN] = status(gates=(gate(),))
    assert perdure.run("watch", RUN, "--text", *flags) == 0
    assert "no worker serves the queue" in perdure.err
    assert f"perdure answer {RUN}:{gate().name}" in perdure.err
    assert "waits for a person" not in perdure.out


def test_ctrl_c_leaves_a_run_going_whose_text_is_watched(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    _speaks(perdure, monkeypatch)
    perdure.gateway.signalled = signal.SIGINT
    assert perdure.run("watch", RUN, "--text") == 130
    assert f"The run goes on. Watch it: perdure watch {RUN}" in perdure.err


def test_json_may_stand_before_the_command(perdure: Installation) -> None:
    perdure.run("--json", "validate", "-")
    assert "Unknown option" not in perdure.err


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("run", "word " * 60, "--example"), 2, "goes with a ready-made task"),
        (("validate", "a" * 300), 4, "There is no file"),
        (("run", "a goal", "--set", f"workspace={'a' * 300}"), 2, "a folder that exists"),
    ],
)
def test_what_is_longer_than_a_name_may_be(
    perdure: Installation, argv: tuple[str, ...], code: int, said: str
) -> None:
    assert perdure.run(*argv) == code
    assert said in perdure.err


def test_words_in_another_encoding_are_refused(perdure: Installation) -> None:
    assert perdure.run("list", "--label", "na\udcefve") == 2
    assert "'na\\udcefve' is no text in UTF-8." in perdure.err
