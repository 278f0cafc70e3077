"""Pictures of one run, as a pipe sees them and at 80 columns."""

from io import StringIO

import pytest
from inline_snapshot import snapshot
from rich.console import Console

from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from perdure.interfaces.cli.views.history import comparison_view, history_view, transcript_view
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.live import draft_lines, live_view
from perdure.interfaces.cli.views.result import result_view
from perdure.interfaces.cli.views.status import status_view
from tests.interfaces.cli.samples import RECORDS, WEB, gate, patch_result, result, status
from tests.interfaces.cli.views.rendering import wide


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
? g1-abab tool approval: May fs.write change README.md?
  perdure answer refine-steel-bottle-7f3a:g1-abab CHOICE  (approve, deny)\
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
source  the store: the run is over
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7f3a\
""")


def test_status_of_a_run_in_trouble_says_what_keeps_it() -> None:
    away = status(source="store", explanation=None, trouble="attempt 2 of 8: refused")
    shown = plain(status_view(away))
    assert "trouble  attempt 2 of 8: refused" in shown
    assert "source   the store: no worker answered" in shown


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

[done] 2 iterations, 38k tokens, $0.32 · quality met  ▆▇
run     refine-steel-bottle-7f3a
why     The result reached the quality that was asked for. (accepted/quality_met)
score   0.89 in iteration 2
spend   38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active of 5.5 s
saved   24k input tokens (40 % of a loop that resends all), 1 judge call
models  claude-sonnet-4-5
Web UI  http://127.0.0.1:8233/namespaces/default/workflows/refine-steel-bottle-7f3a
next    perdure explain refine-steel-bottle-7f3a\
""")
    assert wide(result_view(patch_result())) == snapshot("""\
A bottle of steel.
Goes into the dishwasher.

[done] 2 iterations, 38k tokens, $0.32 · quality met  ▆▇
run        refine-steel-bottle-7f3a
why        The result reached the quality that was asked for.
           (accepted/quality_met)
score      0.89 in iteration 2
spend      38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active
           of 5.5 s
saved      24k input tokens (40 % of a loop that resends all), 1 judge call
models     claude-sonnet-4-5
artifacts  patch sha256:000000000000, all files sha256:000000000000
next       perdure diff refine-steel-bottle-7f3a, perdure apply
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


def test_result_of_a_run_that_has_nothing_to_show() -> None:
    empty = result(
        outcome="deadline", quality_met=False, partial=True,
        output=None, output_ref=None, best=None, artifacts=(),
    )  # fmt: skip
    told = plain(result_view(empty))
    assert told.startswith("no output\n")
    assert "· nothing to show" in told
    assert "partial result" not in told


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
no output

[done] 2 iterations, 38k tokens, $0.32 · failed  ▆▇
run     refine-steel-bottle-7f3a
why     The model could not be used, and retries did not heal it. (failed/model_error)
spend   38,000 tokens · 2,000 written · $0.32 · 4 model calls · 4.0 s active of 5.5 s
saved   24k input tokens (40 % of a loop that resends all), 1 judge call
models  claude-sonnet-4-5
error   401 invalid x-api-key
still open
  ✗ tone: too formal  → loosen up
next    perdure explain refine-steel-bottle-7f3a, perdure retry refine-steel-bottle-7f3a\
""")


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ({"reason": "text_answer"}, "answered"),
        ({"reason": "text_answer", "truncated": True}, "answered · cut off"),
        ({"reason": "quality_met"}, "quality met"),
        ({"outcome": "best_effort", "reason": "plateau", "quality_met": False}, "best kept"),
        ({"outcome": "failed", "reason": "refusal", "quality_met": False}, "failed"),
    ],
    ids=["an agent", "an agent that was cut", "a rubric", "the best of some", "a failure"],
)
def test_an_end_speaks_of_quality_where_it_was_measured(
    ended: dict[str, object], told: str
) -> None:
    (line,) = [row for row in plain(result_view(result(**ended))).splitlines() if "[done]" in row]
    assert f" · {told}  ▆▇" in line


def test_an_error_that_the_explanation_tells_is_told_once() -> None:
    error = "tests: pytest may not run on this worker."
    why = "The input of the run was not valid (tests: pytest may not run on this worker)."
    ended = result(outcome="failed", reason="invalid_input", explanation=why, error=error)
    assert plain(result_view(ended)).count("pytest may not run") == 1


def test_history() -> None:
    assert plain(history_view(RECORDS, 2)) == snapshot("""\
 #  score  decision  evaluation   dimensions              tokens   cost   time
 1   0.73  continue  full         1 of 2 full, tone 0.60    1.2k  $0.02  1.2 s
2★   0.89  accept    incremental  1 of 2 full, tone 0.85    1.2k  $0.02  1.2 s
2 iterations, 2,400 tokens, $0.04
[iter 1] score 0.73 · missing too formal
  important  tone: too formal  → write as you speak
[iter 2] score 0.89 (eval: incremental) · missing tone\
""")
    assert wide(history_view(RECORDS, 2)) == snapshot("""\
 #  score  decision  evaluation   dimensions              tokens   cost   time
 1   0.73  continue  full         1 of 2 full, tone 0.60    1.2k  $0.02  1.2 s
2★   0.89  accept    incremental  1 of 2 full, tone 0.85    1.2k  $0.02  1.2 s
2 iterations, 2,400 tokens, $0.04
[iter 1] score 0.73 · missing too formal
  important  tone: too formal  → write as you speak
[iter 2] score 0.89 (eval: incremental) · missing tone\
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


def test_transcript() -> None:
    messages = (
        user_message("Read it.", pinned=True),
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
<U+001B>[2Jhi
""")


DRAFTS = {
    "none": ("", None),
    "blank": (" \n\n", None),
    "short": ("one\n\ntwo", "one\ntwo"),
    "long": ("\n".join("abcdefgh"), "a\nb\nc\nd\ne\n… and 3 lines more"),
    "one too many": ("\n".join("abcdef"), "a\nb\nc\nd\ne\n… and 1 line more"),
    "wide": ("x" * 200, "x" * 69 + "…"),
    "hostile": ("\x1b[2Jgone", "<U+001B>[2Jgone"),
}


@pytest.mark.parametrize(("draft", "told"), DRAFTS.values(), ids=DRAFTS)
def test_the_picture_shows_the_draft(draft: str, told: str | None) -> None:
    lines = draft_lines(draft)
    assert (None if lines is None else lines.plain) == told
    assert (told or "\n").splitlines()[0] in wide(live_view(status(), draft=draft))
