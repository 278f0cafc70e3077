"""Pictures of many runs, of money and of plans."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from inline_snapshot import snapshot

from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.llm.usage import Usage
from perdure.domain.run.cost_report import CostLine, CostReport
from perdure.domain.run.messages import Receipt
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.types import BulkReport, OpenGate, OpenGates, QueueState, RunPage, RunRow
from perdure.interfaces.cli.commands.inspect import explanation_view
from perdure.interfaces.cli.views.costs import costs_view
from perdure.interfaces.cli.views.gates import gates_view
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.plan import plan_view
from perdure.interfaces.cli.views.runs import FAILING, bulk_view, receipt_view, runs_view
from perdure.interfaces.explanation import explain_run
from perdure.interfaces.plan import plan_run
from tests.interfaces.cli.samples import NOW, RECORDS, RUN, gate, result, status
from tests.interfaces.cli.views.rendering import wide


def test_gates() -> None:
    asked = gate(
        kind="escalation",
        id="g2",
        prompt="The score stays at 0.4.\nGo on?",
        choices=("continue", "accept", "stop"),
        deadline=NOW + timedelta(hours=1),
        on_expiry="default:accept",
        args_hash=None,
    )
    found = OpenGates(
        gates=tuple(
            OpenGate(run=RUN, kind="refine", goal="Write a text.", gate=item)
            for item in (gate(), asked)
        ),
        unread=("agent-other-1",),
    )
    assert plain(gates_view(found, NOW)) == snapshot("""\
refine-steel-bottle-7f3a:g1-abab  tool approval · opened 5 min ago
  Write a text.
  May fs.write change README.md?
  → perdure answer refine-steel-bottle-7f3a:g1-abab CHOICE  (approve, deny)
refine-steel-bottle-7f3a:g2  escalation · opened 5 min ago · expires in 1 h, then accept is taken
  Write a text.
  The score stays at 0.4.
  Go on?
  → perdure answer refine-steel-bottle-7f3a:g2 CHOICE  (continue, accept, stop)
agent-other-1 may wait too, but no worker answers for it: `perdure status agent-other-1` says more\
""")
    assert plain(gates_view(OpenGates(), NOW)) == snapshot("Nothing waits for a person.")
    silent = plain(gates_view(OpenGates(unread=tuple(f"r-{n}" for n in range(1010))), NOW))
    assert len(silent.splitlines()) == 11
    assert silent.endswith("1,000 more runs may wait too: `perdure list --status waiting`")
    sealed = OpenGates(unread=("agent-1",), reasons={"agent-1": "It is sealed. Get the codec."})
    assert plain(gates_view(sealed, NOW)) == snapshot(
        "agent-1 waits too, but what it asks is not known: It is sealed. Get the codec."
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"trouble": "waiting for a worker", "phase": "starting"}, "waiting for a worker"),
        ({"trouble": "its code keeps failing in the worker (X)", "failing": True}, FAILING),
        ({"phase": "executing"}, "executing"),
    ],
    ids=["waits", "fails", "works"],
)
def test_a_run_that_waits_is_not_said_to_fail(given: dict[str, Any], told: str) -> None:
    row = RunRow(id=RUN, kind="refine", goal="g", lifecycle="running", **given)
    shown = plain(runs_view(RunPage(runs=(row,)), NOW))
    assert f"running · {told}" in shown
    assert ("failing" in shown) == (told == FAILING)


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
refine-steel-bottle-7f3a
  running · executing · iter 2 · score 0.89 · cost $0.01 · 3 min ago · Write a
  text.  [b]
agent-x-1
  completed · accepted · score – · Say hi
older ones come from the store
more: perdure list --cursor abc\
""")
    assert plain(runs_view(RunPage(), NOW)) == snapshot("No runs.")
    assert plain(runs_view(RunPage(cursor="store.1000"), NOW)) == snapshot("""\
None of the runs looked at so far fits.
more: perdure list --cursor store.1000\
""")


@pytest.mark.parametrize("lifecycle", ["running", "waiting", "paused"])
def test_a_stop_says_what_comes_of_it(lifecycle: str) -> None:
    told = plain(receipt_view(RUN, Receipt(verb="stop", lifecycle=lifecycle)))
    assert "it ends with its best result" in told
    assert "now" not in told


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


def test_models_of_one_short_name_keep_a_line_each() -> None:
    names = [f"scripted:sha256:{digit * 64}#big" for digit in "ab"]
    report = CostReport(runs=(RUN,), by_model={name: CostLine(attempts=1) for name in names})
    assert plain(costs_view(report)).count("scripted:big") == 2


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
        learning=CostLine(attempts=1, cost_usd=Decimal("0.002"), seconds=1.1),
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

unconfirmed: 1 attempt, $0.01: an estimate, for nobody told what they used

beside the total  calls  input  cached  written    cost   time
learning              1      0       0        0  $0.002  1.1 s

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
        cards={"claude-sonnet-4-5": ModelProfile(name="claude-sonnet-4-5", price=price)},
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
planner     claude-sonnet-4-5 ($3 in, $15 out per million)
evaluator   claude-sonnet-4-5 ($3 in, $15 out per million)
iterations  at most 3: recall → plan → execute → evaluate → decide → refine
checks      short
judged      tone
at most     200,000 tokens, $2.00, 5 min of work, 30 d in all; one full call $0.12
worst case  2.00 USD: no call starts that does not fit into what is left.
unanswered  after 7 d a call is denied, and any other question ends the run with its best
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
planner     claude-sonnet-4-5 ($3 in, $15 out per million)
evaluator   claude-sonnet-4-5 ($3 in, $15 out per million)
iterations  at most 3: recall → plan → execute → evaluate → decide → refine
checks      short
judged      tone
at most     200,000 tokens, $2.00, 5 min of work, 30 d in all; one full call
            $0.12
worst case  2.00 USD: no call starts that does not fit into what is left.
unanswered  after 7 d a call is denied, and any other question ends the run with
            its best
! the evaluator is the executor
   queue            serves  worker
✓  perdure-1-loops  loops   version 0.1.0
✗  perdure-1-tools  tools   Start one: perdure worker
not ready: a worker is missing (see above)\
""")
