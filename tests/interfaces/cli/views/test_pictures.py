"""Every picture as a pipe sees it, and at 80 columns."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from io import StringIO

import pytest
from inline_snapshot import snapshot
from rich.console import Console, RenderableType

from perdure.domain.costs import CostLine, CostReport
from perdure.domain.messages import Receipt
from perdure.domain.models import ModelCard, Price
from perdure.domain.ports import Endpoints
from perdure.domain.run import RUN_SPEC
from perdure.domain.transcript import (
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_text,
)
from perdure.domain.usage import Usage
from perdure.interfaces.cli.chaos import ChaosReport
from perdure.interfaces.cli.comparison import Arm, Comparison
from perdure.interfaces.cli.views.checks import (
    chaos_view,
    collected_view,
    doctor_view,
    endpoints_view,
    replay_view,
)
from perdure.interfaces.cli.views.costs import costs_view
from perdure.interfaces.cli.views.demo import comparison_table, demo_view
from perdure.interfaces.cli.views.events import event_line
from perdure.interfaces.cli.views.explain import explanation_view
from perdure.interfaces.cli.views.gates import gates_view
from perdure.interfaces.cli.views.history import comparison_view, history_view
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.live import live_view
from perdure.interfaces.cli.views.plan import plan_view
from perdure.interfaces.cli.views.result import result_view
from perdure.interfaces.cli.views.runs import bulk_view, receipt_view, runs_view
from perdure.interfaces.cli.views.status import status_view
from perdure.interfaces.cli.views.transcript import transcript_view
from perdure.interfaces.explanation import explain_run
from perdure.interfaces.gateway.facts import (
    BulkReport,
    OpenGate,
    OpenGates,
    QueueState,
    RunPage,
    RunRow,
)
from perdure.interfaces.plan import plan_run
from perdure.interfaces.services import Check, Collected, Killed, Replayed
from tests.interfaces.cli.samples import (
    NOW,
    RECORDS,
    RUN,
    WEB,
    event,
    gate,
    patch_result,
    result,
    status,
)


def wide(view: RenderableType) -> str:
    """What an 80-column terminal shows, colours aside."""
    console = Console(file=StringIO(), width=80, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(view)
    return "\n".join(row.rstrip() for row in captured.get().splitlines())


def test_status() -> None:
    assert plain(status_view(status())) == snapshot("""\
refine-steel-bottle-7f3a  refine  running
goal   Write a product text for a steel water bottle.
state  executing · iteration 2/6 · 4.2 s
step   model call smollm2
score  ▆▇ 0.89  best 0.89 in iteration 2
parts  ✓ line 1  ✗ line 2  1 of 2
spend  4.2k of 200k tokens · $0.01 of $2.00 · 3 model calls · 3.5 s active
left   62% of the tightest limit
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7f3a\
""")
    assert wide(
        status_view(status(gates=(gate(),), lifecycle="waiting", phase="waiting"))
    ) == snapshot("""\
refine-steel-bottle-7f3a  refine  waiting
goal   Write a product text for a steel water bottle.
state  waiting · iteration 2/6 · 4.2 s
step   model call smollm2
score  ▆▇ 0.89  best 0.89 in iteration 2
parts  ✓ line 1  ✗ line 2  1 of 2
spend  4.2k of 200k tokens · $0.01 of $2.00 · 3 model calls · 3.5 s active
left   62% of the tightest limit
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7
? g1 tool approval: May fs.write change README.md?
  perdure answer refine-steel-bottle-7f3a:g1 approve|deny\
""")


def test_status_of_an_ended_run_says_where_it_comes_from() -> None:
    ended = status(
        lifecycle="completed",
        phase="ended",
        step=None,
        source="store",
        outcome="best_effort",
        reason="max_iterations",
        explanation="The permitted iterations are used up.",
    )
    assert plain(status_view(ended)) == snapshot("""\
refine-steel-bottle-7f3a  refine  completed
goal    Write a product text for a steel water bottle.
state   ended · iteration 2/6 · 4.2 s
score   ▆▇ 0.89  best 0.89 in iteration 2
parts   ✓ line 1  ✗ line 2  1 of 2
spend   4.2k of 200k tokens · $0.01 of $2.00 · 3 model calls · 3.5 s active
left    62% of the tightest limit
ended   best_effort (max_iterations): The permitted iterations are used up.
source  the store: the run is over, or no worker answered
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7f3a\
""")


def test_live() -> None:
    assert wide(live_view(status())) == snapshot("""\
● refine-steel-bottle-7f3a · executing · iteration 2/6 · 4.2 s
step   model call smollm2
score  ▆▇ 0.89  best 0.89 in iteration 2
parts  ✓ line 1  ✗ line 2  1 of 2
spend  4.2k of 200k tokens · $0.01 of $2.00 · 3 model calls · 3.5 s active
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-…
Ctrl-C leaves the run going.\
""")


def test_parts_turn_green() -> None:
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        console.print(live_view(status()))
    assert "\x1b[32m✓ line 1" in captured.get()
    assert "\x1b[31m✗ line 2" in captured.get()


def test_result() -> None:
    assert plain(result_view(result(), web_url=WEB)) == snapshot("""\
A bottle of steel.
Goes into the dishwasher.

[done] 2 iterations, 38k tokens, $0.32 · quality met
run     refine-steel-bottle-7f3a
why     The result reached the quality that was asked for. (accepted/quality_met)
score   0.89 in iteration 2  ▆▇
spend   38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active of 5.5 s
saved   24k input tokens (40% of a loop that resends all), 1 judge call
models  claude-sonnet-4-5
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7f3a
next    perdure explain refine-steel-bottle-7f3a\
""")
    assert wide(result_view(patch_result())) == snapshot("""\
A bottle of steel.
Goes into the dishwasher.

[done] 2 iterations, 38k tokens, $0.32 · quality met
run        refine-steel-bottle-7f3a
why        The result reached the quality that was asked for.
           (accepted/quality_met)
score      0.89 in iteration 2  ▆▇
spend      38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active
           of 5.5 s
saved      24k input tokens (40% of a loop that resends all), 1 judge call
models     claude-sonnet-4-5
artifacts  patch sha256:000000000000, tree sha256:000000000000
next    perdure diff refine-steel-bottle-7f3a, perdure apply
refine-steel-bottle-7f3a, perdure explain refine-steel-bottle-7f3a\
""")


def test_result_tells_what_is_only_an_estimate() -> None:
    spend = result().spend.model_copy(update={"unconfirmed": {"tokens": 1200, "cost_usd": "0.13"}})
    assert (
        "unconfirmed  1,200 tokens, $0.13 of it: calls that were cut off, at their estimate"
        in plain(result_view(result(spend=spend)))
    )
    nothing = result().spend.model_copy(update={"unconfirmed": {"tokens": 0, "cost_usd": "0"}})
    assert "unconfirmed" not in plain(result_view(result(spend=nothing)))


def test_result_that_ended_badly() -> None:
    failed = result(
        outcome="failed",
        reason="model_error",
        explanation="The model could not be used, and retries did not heal it.",
        quality_met=False,
        output=None,
        output_ref=None,
        best=None,
        error="401 invalid x-api-key",
        open_findings=({"dimension": "tone", "title": "too formal", "fix": "loosen up"},),
    )
    assert plain(result_view(failed)) == snapshot("""\
no output inline

[done] 2 iterations, 38k tokens, $0.32 · failed
run     refine-steel-bottle-7f3a
why     The model could not be used, and retries did not heal it. (failed/model_error)
spend   38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active of 5.5 s
saved   24k input tokens (40% of a loop that resends all), 1 judge call
models  claude-sonnet-4-5
error   401 invalid x-api-key
still open
  ✗ tone: too formal  → loosen up
next    perdure explain refine-steel-bottle-7f3a\
""")


def test_history() -> None:
    assert plain(history_view(RECORDS, 2)) == snapshot("""\
 #  score  decision  evaluation   dimensions              tokens   cost   time
 1   0.73  continue  full         1 of 2 full, tone 0.60    1.2k  $0.02  1.2 s
2★   0.89  accept    incremental  1 of 2 full, tone 0.85    1.2k  $0.02  1.2 s
2 iterations, 2,400 tokens, $0.04
iteration 1
  important  tone: too formal  → write as you speak\
""")
    assert wide(history_view(RECORDS, 2)) == snapshot("""\
 #  score  decision  evaluation   dimensions              tokens   cost   time
 1   0.73  continue  full         1 of 2 full, tone 0.60    1.2k  $0.02  1.2 s
2★   0.89  accept    incremental  1 of 2 full, tone 0.85    1.2k  $0.02  1.2 s
2 iterations, 2,400 tokens, $0.04
iteration 1
  important  tone: too formal  → write as you speak\
""")
    assert plain(history_view((), None)) == snapshot("No iteration is complete yet.")


def test_comparison_of_two_iterations() -> None:
    texts = ("A bottle.\nOf steel.\n", "A bottle.\nOf fine steel.\n")
    assert plain(comparison_view(*RECORDS, texts=texts)) == snapshot("""\
dimension  iteration 1  iteration 2  change
overall           0.73         0.89   +0.16
tone              0.60         0.85   +0.25
short             1.00         1.00       =

--- iteration 1
+++ iteration 2
@@ -1,2 +1,2 @@
 A bottle.
-Of steel.
+Of fine steel.\
""")


def test_gates() -> None:
    asked = gate(
        kind="escalation",
        id="g2",
        prompt="The score stays at 0.4.\nGo on?",
        choices=("continue", "accept", "stop"),
        deadline=NOW + timedelta(hours=1),
        on_expiry="default:accept",
    )
    found = OpenGates(
        gates=tuple(
            OpenGate(run=RUN, kind="refine", goal="Write a text.", gate=item)
            for item in (gate(), asked)
        ),
        unread=("agent-other-1",),
    )
    assert plain(gates_view(found, NOW)) == snapshot("""\
refine-steel-bottle-7f3a:g1  tool approval · opened 5 min ago
  Write a text.
  May fs.write change README.md?
  → perdure answer refine-steel-bottle-7f3a:g1 approve|deny
refine-steel-bottle-7f3a:g2  escalation · opened 5 min ago · expires in 1 h, then accept is taken
  Write a text.
  The score stays at 0.4.
  Go on?
  → perdure answer refine-steel-bottle-7f3a:g2 continue|accept|stop
agent-other-1 waits too, but no worker answers for it: start one with `perdure up`\
""")
    assert plain(gates_view(OpenGates(), NOW)) == snapshot("Nothing waits for a person.")


def test_runs() -> None:
    rows = (
        RunRow(
            id=RUN,
            kind="refine",
            goal="Write a text.",
            label="b",
            lifecycle="running",
            phase="executing",
            iteration=2,
            score=0.89,
            cost_usd=0.0123,
            started_at=NOW - timedelta(minutes=3),
        ),
        RunRow(
            id="agent-x-1", kind="agent", goal="Say hi", lifecycle="completed", outcome="accepted"
        ),
    )
    page = RunPage(runs=rows, cursor="abc", note="older ones come from the store")
    assert plain(runs_view(page, NOW)) == snapshot("""\
run                       state                 iter  score   cost  started    goal
refine-steel-bottle-7f3a  running · executing      2   0.89  $0.01  3 min ago  Write a text.  [b]
agent-x-1                 completed · accepted            –                    Say hi
older ones come from the store
more: perdure list --cursor abc\
""")
    assert wide(runs_view(page, NOW)) == snapshot("""\
run                       state       iter  score   cost  started    goal
refine-steel-bottle-7f3a  running ·      2   0.89  $0.01  3 min ago  Write a
                          executing                                  text.  [b]
agent-x-1                 completed             –                    Say hi
                          · accepted
older ones come from the store
more: perdure list --cursor abc\
""")
    assert plain(runs_view(RunPage(), NOW)) == snapshot("No runs.")


def test_receipts() -> None:
    assert plain(receipt_view(RUN, Receipt(verb="pause", lifecycle="paused"))) == snapshot(
        "✓ pause refine-steel-bottle-7f3a: now paused"
    )
    report = BulkReport(verb="stop", taken=(RUN,), refused={"agent-x-1": "it ended"}, note="note")
    assert plain(bulk_view(report)) == snapshot("""\
✓ stop: taken by 1 of 2 runs
! agent-x-1: it ended
note\
""")
    assert plain(bulk_view(BulkReport(verb="stop"))) == snapshot("stop: no open run.")


def test_costs() -> None:
    one = CostLine(
        attempts=3,
        usage=Usage(input_tokens=12_000, output_tokens=800, cache_read_tokens=9_000),
        cost_usd=Decimal("0.0512"),
        seconds=4.2,
    )
    report = CostReport(
        runs=(RUN,),
        total=one,
        by_phase={"executing": one},
        by_model={"claude-sonnet-4-5": one},
        by_day={"2026-11-21": one},
        unconfirmed=CostLine(attempts=1, cost_usd=Decimal("0.01")),
        budget=status().budget,
    )
    assert plain(costs_view(report)) == snapshot("""\
total                     calls   input  cached  written   cost   time
refine-steel-bottle-7f3a      3  12,000   9,000      800  $0.05  4.2 s

phase      calls   input  cached  written   cost   time
executing      3  12,000   9,000      800  $0.05  4.2 s

model              calls   input  cached  written   cost   time
claude-sonnet-4-5      3  12,000   9,000      800  $0.05  4.2 s

day         calls   input  cached  written   cost   time
2026-11-21      3  12,000   9,000      800  $0.05  4.2 s

unconfirmed: 1 attempt, $0.01: they died with their worker, at their estimate

budget  4.2k of 200k tokens · $0.01 of $2.00 · 3 model calls · 3.5 s active\
""")


def test_explanation() -> None:
    stopped = result(
        outcome="best_effort",
        reason="max_iterations",
        explanation="The permitted iterations are used up; this is the best result.",
        quality_met=False,
    )
    assert wide(explanation_view(explain_run(stopped, RECORDS))) == snapshot("""\
Why it stopped (best_effort/max_iterations)
  The permitted iterations are used up; this is the best result.
What would have changed it
  • A limit above 2 (`refine.max_iterations` or `agent.max_iterations`). The
last iteration gained 0.16.
What the next 0.10 USD would likely buy
  About 5 iterations at 0.0200 USD each. Likely +0.11, to about 1.00 (estimated
from the last gain of this run).\
""")


def test_plan() -> None:
    spec = RUN_SPEC.validate_python(
        {
            "kind": "refine",
            "goal": "Write a product text.",
            "rubric": [
                {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 60}},
                {"name": "tone", "evaluator": {"judge": {}}},
            ],
        }
    )
    price = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
    plan = plan_run(
        spec,
        cards={"claude-sonnet-4-5": ModelCard(name="claude-sonnet-4-5", price=price)},
        queues=(
            QueueState(queue="perdure-1-loops", serves="loops", ready=True, version="0.1.0"),
            QueueState(queue="perdure-1-tools", serves="tools", cure="Start one: perdure worker"),
        ),
        default_model="claude-sonnet-4-5",
        warnings=("the evaluator is the executor",),
    )
    assert plain(plan_view(plan)) == snapshot("""\
Plan (nothing was started)
kind        refine
goal        Write a product text.
workspace   an empty scratch folder
tools       readonly, where the model can choose tools
executor    claude-sonnet-4-5 ($3 in, $15 out per million)
evaluator   claude-sonnet-4-5 ($3 in, $15 out per million)
planner     claude-sonnet-4-5 ($3 in, $15 out per million)
iterations  at most 3: plan → execute → evaluate → decide → refine
checks      short
judged      tone
at most     200,000 tokens, $2.00, 5 min of work; one full call $0.12
worst case  2.00 USD: no call starts that does not fit into what is left.
! the evaluator is the executor
   queue            serves  worker
✓  perdure-1-loops  loops   version 0.1.0
✗  perdure-1-tools  tools   Start one: perdure worker
not ready: a worker is missing (see above)\
""")
    assert wide(plan_view(plan)) == snapshot("""\
Plan (nothing was started)
kind        refine
goal        Write a product text.
workspace   an empty scratch folder
tools       readonly, where the model can choose tools
executor    claude-sonnet-4-5 ($3 in, $15 out per million)
evaluator   claude-sonnet-4-5 ($3 in, $15 out per million)
planner     claude-sonnet-4-5 ($3 in, $15 out per million)
iterations  at most 3: plan → execute → evaluate → decide → refine
checks      short
judged      tone
at most     200,000 tokens, $2.00, 5 min of work; one full call $0.12
worst case  2.00 USD: no call starts that does not fit into what is left.
! the evaluator is the executor
   queue            serves  worker
✓  perdure-1-loops  loops   version 0.1.0
✗  perdure-1-tools  tools   Start one: perdure worker
not ready: a worker is missing (see above)\
""")


def test_transcript() -> None:
    messages = (
        user_text("Read it.", pinned=True),
        Message(
            role="assistant",
            blocks=(
                TextBlock(type="text", text="Let me look."),
                ToolUseBlock(type="tool_use", id="t1", name="fs.read", arguments={"path": "a"}),
            ),
        ),
        Message(
            role="user",
            blocks=(
                ToolResultBlock(
                    type="tool_result", call_id="t1", name="fs.read", outcome="ok", text="\x1b[2Jhi"
                ),
            ),
        ),
    )
    assert plain(transcript_view(messages)) == snapshot("""\
1 user  pinned
Read it.

2 assistant
Let me look.
→ fs.read {"path": "a"}  t1

3 user
← fs.read ok
hi
""")


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
        outcome="accepted",
    )
    assert plain(chaos_view(report)) == snapshot("""\
✓ nothing was lost
killed               worker (process 4711)
back after           1.9 s
replies from before  3 of 3 still count
paid for again       0
attempts that died   1, booked at their estimate
ended                accepted\
""")
    assert plain(chaos_view(report.model_copy(update={"kept": 2}))).startswith("✗ something")


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
  perdure demo --seeds 10                    measures the loop against best-of-n
  perdure up                                 keeps the services running\
""")


def test_comparison_table() -> None:
    arm = Arm(
        name="loop", scores=(0.702, 0.914, 1.0), full_passes=9, calls=6.3, output_tokens=121.0
    )
    other = arm.model_copy(update={"name": "best of n", "full_passes": 3, "output_tokens": 313.0})
    shown = comparison_table(Comparison(seeds=10, iterations=3, loop=arm, best_of_n=other))
    assert wide(shown) == snapshot("""\
Mean best score after each iteration, 10 seeds
arm            1      2      3  all pass  calls  output tokens
loop       0.702  0.914  1.000   9 of 10    6.3            121
best of n  0.702  0.914  1.000   3 of 10    6.3            313
From the runs just made; best of n makes as many calls as the loop had made by
that iteration.\
""")


def test_runs_without_a_score_are_not_counted_in_silence() -> None:
    arm = Arm(name="loop", scores=(0.7,), full_passes=0, calls=1, output_tokens=9)
    other = arm.model_copy(update={"name": "best of n", "unscored": 3})
    shown = plain(comparison_table(Comparison(seeds=1, iterations=1, loop=arm, best_of_n=other)))
    assert "! best of n: 3 runs ended without a score and count as 0 above." in shown
    assert "! loop" not in shown


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
            snapshot("[iter 1/3] score 0.89 · evaluation incremental, 40% tokens saved"),
            id="incremental",
        ),
        pytest.param(
            lambda: event(3, "iteration_completed", decision="continue", score=None),
            snapshot("[iter 1/3] continue"),
            id="unscored",
        ),
        pytest.param(
            lambda: event(4, "gate_opened", gate="g1", kind="budget", prompt="More?"),
            snapshot("[budget g1] More?  → perdure answer refine-steel-bottle-7f3a:g1 raise|end"),
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
    assert str(event_line(quiet, detailed=True)) == snapshot("[model call started] model=local")
