"""Pictures of the installation, of proofs, of the demo, and lines of events."""

from collections.abc import Callable

import pytest
from inline_snapshot import snapshot

from perdure.domain.ports import Endpoints
from perdure.domain.retention.messages import LeftRun
from perdure.interfaces.cli.chaos import ChaosReport
from perdure.interfaces.cli.views.checks import (
    chaos_view,
    collected_view,
    doctor_view,
    endpoints_view,
    replay_view,
)
from perdure.interfaces.cli.views.demo import demo_view
from perdure.interfaces.cli.views.events import event_line
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.services import Check, Collected, Killed, Replayed
from tests.interfaces.cli.samples import RUN, WEB, event, result
from tests.interfaces.cli.views.rendering import wide


def test_installation_pictures() -> None:
    checks = (
        Check(name="Python", state="ok", found="3.11.7"),
        Check(name="model", state="warning", found="none", cure="Run `perdure setup`."),
        Check(name="server", state="failed", found="away", cure="Run `perdure up --detach`."),
    )
    assert plain(doctor_view(checks)) == snapshot("""\
   check   found
✓  Python  3.11.7
!  model   none
✗  server  away
→ model: Run `perdure setup`.
→ server: Run `perdure up --detach`.
1 problem to mend\
""")
    assert plain(doctor_view(checks[:1])) == snapshot("""\
   check   found
✓  Python  3.11.7
all is well\
""")
    replays = (
        Replayed(source=RUN, events=40),
        Replayed(source="old.json", events=12, problem="nondeterminism at event 7"),
    )
    assert plain(replay_view(replays)) == snapshot("""\
   history                   size       replayed
✓  refine-steel-bottle-7f3a  40 events  same decisions
✗  old.json                  12 events  nondeterminism at event 7\
""")
    collected = Collected(blobs=3, bytes=3 * 1024 * 1024, kept=12, dry_run=True)
    assert plain(collected_view(collected)) == snapshot("would drop 3 blobs (3.0 MiB), kept 12")
    left = (LeftRun(run=RUN, why=f"The run {RUN} has not ended."),)
    collected = Collected(blobs=0, bytes=0, kept=1, dry_run=False, runs=2, left=3, left_runs=left)
    assert plain(collected_view(collected)) == snapshot("""\
dropped 2 runs and 0 blobs (0.0 MiB), kept 1
left refine-steel-bottle-7f3a alone: The run refine-steel-bottle-7f3a has not ended.
left 2 other runs alone\
""")
    endpoints = Endpoints(
        temporal_address="127.0.0.1:7233",
        namespace="default",
        home="/home/me/.perdure",
        ui_url="http://127.0.0.1:8233",
    )
    assert plain(endpoints_view(endpoints)) == snapshot("""\
Temporal  127.0.0.1:7233 (namespace default)
Web UI    http://127.0.0.1:8233
folder    /home/me/.perdure\
""")


def test_chaos() -> None:
    report = ChaosReport(
        run=RUN,
        killed=Killed(name="worker", pid=4711),
        back_after_s=1.9,
        answered_before=3,
        kept=3,
        paid_again=0,
        lost_attempts=1,
        made_again=1,
        outcome="accepted",
    )
    assert plain(chaos_view(report)) == snapshot("""\
✓ no reply was lost; the call in flight died, and was made again
killed               worker (process 4711)
back after           1.9 s
replies from before  3 of 3 still count
paid for again       0
attempts that died   1, booked at their estimate
ended                accepted\
""")
    assert plain(chaos_view(report.model_copy(update={"kept": 2}))).startswith("✗ something")
    unhurt = report.model_copy(update={"lost_attempts": 0, "made_again": 0})
    assert plain(chaos_view(unhurt)).startswith("✓ nothing was lost\n")


def test_demo_tells_a_partial_pass_as_a_good_ending() -> None:
    ended = result(
        outcome="best_effort",
        reason="max_iterations",
        explanation="The permitted iterations are used up; this is the best result.",
        quality_met=False,
    )
    assert wide(demo_view(ended, web_url=WEB)) == snapshot("""\
A bottle of steel.
Goes into the dishwasher.

● 1 of 2 checks pass: stopped after 2 iterations, the best one is kept.
  The permitted iterations are used up; this is the best result.
  A loop that ends on time with its best draft did its work.
score  0.89  ▆▇
spend  38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active of
       5.5 s
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7
What to try next
  perdure new "a haiku about rain, 3 lines"  writes a task file with checks
  perdure run FILE --dry-run                 shows the plan and the worst case
  perdure demo --seeds 10                    measures the loop at equal spend
  perdure up                                 keeps the services running\
""")


def test_a_demo_that_finished_no_draft_says_what_to_do() -> None:
    ended = result().model_copy(update={"output": None, "best": None, "iterations": ()})
    told = plain(demo_view(ended, web_url=WEB))
    assert told.startswith("✗ No draft was finished.\n")
    assert "perdure run product-page --example" in told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        pytest.param(
            lambda: event(1, "iteration_completed", score=0.73, missing=["IP limiting"]),
            snapshot("[iter 1/3] score 0.73 · missing IP limiting"),
            id="scored",
        ),
        pytest.param(
            lambda: event(
                2, "iteration_completed", score=0.89, evaluation="incremental", saved=0.4
            ),
            snapshot("[iter 1/3] score 0.89 (eval: incremental, 40 % tokens saved)"),
            id="incremental",
        ),
        pytest.param(
            lambda: event(3, "iteration_completed", decision="continue", score=None),
            snapshot("[iter 1/3] continue"),
            id="unscored",
        ),
        pytest.param(
            lambda: event(4, "gate_opened", gate="g1", kind="budget", prompt="More?"),
            snapshot(
                "[budget g1] More?  → perdure answer refine-steel-bottle-7f3a:g1 CHOICE"
                "  (raise, end)"
            ),
            id="gate",
        ),
        pytest.param(
            lambda: event(5, "budget_warning", dimension="tokens"),
            snapshot("[budget] tokens passed 80 % of its limit"),
            id="budget",
        ),
        pytest.param(
            lambda: event(6, "ended", outcome="failed", reason="refusal"),
            snapshot("[done] failed · refusal"),
            id="ended",
        ),
        pytest.param(
            lambda: event(7, "paused", by="\x1b[31mann"), snapshot("[paused] ann"), id="paused"
        ),
    ],
)
def test_event_lines(make: Callable[[], object], told: str) -> None:
    happened = make()
    line = event_line(happened, limit=3)  # pyright: ignore[reportArgumentType]
    assert line is not None
    assert line.plain == told


def test_events_that_tell_a_person_nothing_have_no_line() -> None:
    quiet = event(1, "model_call_started", model="local")
    assert event_line(quiet) is None
    script = "scripted:sha256:" + "a" * 64
    failed = event(1, "model_failed_over", failed=f"{script}#a", to=f"{script}#b", why="overloaded")
    assert str(event_line(failed)) == snapshot("[model] scripted:a · scripted:b · overloaded")
