"""Steering commands: what is sent, to whom, and the exit codes."""

import json

import pytest
from inline_snapshot import snapshot

from perdure.domain.foundation.errors import NoReadyWorker, NotAllowed
from perdure.domain.run.child_questions import question_of
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    Escalate,
    Pause,
    Resume,
    Retry,
    Stop,
)
from perdure.gateway.types import BulkReport
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN, gate, status


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("pause", RUN), Pause(by="ann")),
        (("resume", "refine-steel"), Resume(by="ann")),
        (("stop", "@last"), Stop(by="ann")),
        (("stop", RUN, "--now"), Stop(by="ann", mode="now")),
        (("escalate", RUN, "--note", "look"), Escalate(by="ann", note="look")),
        (("retry", RUN, "--note", "again"), Retry(by="ann", note="again")),
        (("add", RUN, "also blue"), AddInput(by="ann", text="also blue")),
        (("add", RUN, "--", "--json"), AddInput(by="ann", text="--json")),
        (("amend", RUN, "--budget", "cost_usd=3"), Amend(by="ann", budget={"cost_usd": "3"})),
        (("amend", RUN, "--budget", "3"), Amend(by="ann", budget={"cost_usd": "3"})),
        (("amend", RUN, "--budget", "tokens=9"), Amend(by="ann", budget={"tokens": 9})),
        (("amend", RUN, "--guidance", "shorter"), Amend(by="ann", guidance="shorter")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_verbs_are_sent_with_who_asks(
    perdure: Installation, argv: tuple[str, ...], expected: Pause
) -> None:
    assert perdure.run(*argv) == 0
    [(run, sent)] = perdure.gateway.sent
    assert run == RUN
    assert sent.request_id
    assert sent.model_copy(update={"request_id": None}) == expected
    assert RUN in perdure.out


def test_several_runs_get_a_message_each(perdure: Installation) -> None:
    perdure.gateway.statuses["agent-b-1"] = status(id="agent-b-1")
    assert perdure.run("pause", RUN, "agent-b", RUN) == 0
    assert [run for run, _ in perdure.gateway.sent] == [RUN, "agent-b-1"]
    assert len({sent.request_id for _, sent in perdure.gateway.sent}) == 2


@pytest.mark.parametrize(
    ("argv", "is_text"),
    [
        (("add", RUN, "- buy milk"), True),
        (("add", RUN, "-buy\nmilk"), True),
        (("amend", RUN, "--guidance", "- be brief"), True),
        (("pause", RUN, "--bad"), False),
        (("pause", RUN, "--bad=a b"), False),
    ],
)
def test_a_text_that_looks_like_an_option_is_told_from_one(
    perdure: Installation, argv: tuple[str, ...], is_text: bool
) -> None:
    assert perdure.run(*argv) == 2
    assert ("Before a text that begins with a dash write --" in perdure.err) == is_text
    assert perdure.run("add", RUN, "--", "- buy milk") == 0
    assert perdure.run("amend", RUN, "--guidance=- be brief") == 0


def test_one_refusal_does_not_keep_the_others_from_it(perdure: Installation) -> None:
    perdure.gateway.statuses["agent-b-1"] = status(id="agent-b-1")
    perdure.gateway.refusals[RUN] = NotAllowed("it is paused already")
    assert perdure.run("pause", RUN, "agent-b") == 5
    assert [run for run, _ in perdure.gateway.sent] == ["agent-b-1"]
    assert perdure.err == snapshot("error: refine-steel-bottle-7f3a: it is paused already\n")


def test_all_goes_through_one_query(perdure: Installation) -> None:
    assert perdure.run("pause", "all", "--kind", "refine") == 0
    assert [run for run, _ in perdure.gateway.sent] == ["all:refine"]
    assert perdure.out == snapshot("✓ pause: taken by 1 of 1 runs\nseconds\n")


def test_all_that_every_run_refuses_is_not_allowed(perdure: Installation) -> None:
    perdure.gateway.bulk = BulkReport(verb="resume", refused={RUN: "it is not paused"})
    assert perdure.run("resume", "all") == 5


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (("pause",), 2, "No run was named."),
        (("pause", "all", RUN), 2, "`all` was given beside other ids."),
        (("add", "all", "Use Postgres."), 2, "takes runs by name, not `all`"),
        (("retry", "all"), 2, "takes runs by name, not `all`"),
        (("repair", "all"), 2, "takes runs by name, not `all`"),
        (("pause", RUN, "--kind", "agent"), 2, "--kind works with `all` only."),
        (("amend", RUN), 2, "Nothing to change was given."),
        (("amend", RUN, "--budget", "much"), 2, "is not an amount"),
        (("amend", RUN, "--budget", "tokenz=3"), 2, "Did you mean tokens"),
        (("amend", RUN, "--budget", "tokens="), 2, "there is no value"),
        (("run", "g", "--budget", "tokenz=3"), 2, "Did you mean tokens"),
        (("amend", RUN, "--rubric", "no.yaml"), 4, "There is no file"),
        (("add", RUN, " "), 2, "The text is empty."),
        (("stop", "nothing"), 4, "There is no run nothing."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_words_are_told_and_nothing_is_sent(
    perdure: Installation, argv: tuple[str, ...], code: int, told: str
) -> None:
    assert perdure.run(*argv) == code
    assert told in perdure.err
    assert perdure.out == ""
    assert perdure.gateway.sent == []


def test_a_rubric_is_read_from_a_file(perdure: Installation) -> None:
    (perdure.folder / "r.yaml").write_text(
        "rubric:\n  - {name: short, evaluator: {check: length, unit: words, max: 9}}\n",
        encoding="utf-8",
    )
    assert perdure.run("amend", RUN, "--rubric", "r.yaml") == 0
    [(_, sent)] = perdure.gateway.sent
    assert isinstance(sent, Amend)
    assert sent.rubric == [
        {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}
    ]


NAMED = "g1-abab"


@pytest.mark.parametrize("argv", [(NAMED,), (f"{RUN}:{NAMED}",), (NAMED, "--run", "refine-steel")])
def test_an_approval_names_what_was_shown(perdure: Installation, argv: tuple[str, ...]) -> None:
    perdure.gateway.statuses[RUN] = status(gates=(gate(),))
    assert perdure.run("answer", argv[0], "approve", *argv[1:]) == 0
    [(run, sent)] = perdure.gateway.sent
    assert run == RUN
    assert isinstance(sent, Answer)
    assert (sent.gate, sent.choice, sent.text) == (NAMED, "approve", None)


def test_a_run_that_the_gate_names_is_the_one_that_asks(perdure: Installation) -> None:
    asked = gate(kind="question", choices=("red", "stop"), args_hash=None)
    below = [f"{RUN}.w1", f"{RUN}.w2"]
    questions = tuple(question_of(run, asked) for run in below)
    perdure.gateway.statuses[RUN] = status(gates=(asked,), questions=questions)
    perdure.gateway.statuses |= {run: status(id=run, gates=(asked,)) for run in below}
    for run in (below[1], RUN):
        assert perdure.run("answer", f"{run}:g1", "stop", "--run", RUN) == 0
        assert perdure.gateway.sent[-1][0] == run
    perdure.gateway.statuses["agent-b-1"] = status(id="agent-b-1", gates=(asked,))
    assert perdure.run("answer", "agent-b-1:g1", "stop", "--run", RUN) == 4
    assert f"No open gate 'agent-b-1:g1' in {RUN}." in perdure.err


def test_an_approval_by_number_alone_is_shown_what_it_would_approve(perdure: Installation) -> None:
    perdure.gateway.statuses[RUN] = status(gates=(gate(),))
    assert perdure.run("answer", "g1", "approve") == 2
    assert "May fs.write change README.md?" in perdure.err
    assert f"perdure answer {RUN}:{NAMED} approve" in perdure.err
    assert perdure.gateway.sent == []
    assert perdure.run("answer", "g1", "deny") == 0


def test_free_text_answers_a_question(perdure: Installation) -> None:
    asked = gate(kind="question", choices=(), free_text=True, args_hash=None)
    perdure.gateway.statuses[RUN] = status(gates=(asked,))
    assert perdure.run("answer", "g1", "make it blue") == 0
    [(_, sent)] = perdure.gateway.sent
    assert isinstance(sent, Answer)
    assert (sent.choice, sent.text) == (None, "make it blue")


def test_a_choice_may_come_with_words(perdure: Installation) -> None:
    asked = gate(kind="escalation", choices=("continue", "stop"), args_hash=None)
    perdure.gateway.statuses[RUN] = status(gates=(asked,))
    assert perdure.run("answer", "g1", "continue", "--text", "shorter") == 0
    [(_, sent)] = perdure.gateway.sent
    assert isinstance(sent, Answer)
    assert (sent.choice, sent.text) == ("continue", "shorter")


def test_words_beside_a_misspelt_choice_are_not_lost(perdure: Installation) -> None:
    asked = gate(kind="question", choices=("revise", "accept"), free_text=True, args_hash=None)
    perdure.gateway.statuses[RUN] = status(gates=(asked,))
    assert perdure.run("answer", "g1", "revize", "--text", "Use metric units.") == 2
    assert "Choose one of: revise, accept. Or: Give your words alone" in perdure.err
    assert perdure.gateway.sent == []


def test_a_mistyped_choice_is_no_free_text(perdure: Installation) -> None:
    perdure.gateway.statuses[RUN] = status(gates=(gate(free_text=True),))
    assert perdure.run("answer", "g1", "approve!") == 2
    assert perdure.gateway.sent == []


def test_answers_that_fit_no_gate(perdure: Installation) -> None:
    perdure.gateway.statuses[RUN] = status(gates=(gate(),))
    assert perdure.run("answer", "g1", "maybe") == 2
    assert "Choose one of: approve, deny." in perdure.err
    assert perdure.run("answer", "g9", "approve") == 4
    assert "`perdure gates` lists what waits" in perdure.err
    for run in (RUN, "refine-steel", "@last"):
        assert perdure.run("answer", run, "approve") == 4
        assert f"{run} is a run, which asks {RUN}:{NAMED}; name that." in perdure.err
    perdure.gateway.statuses["agent-b-1"] = status(id="agent-b-1", gates=(gate(),))
    assert perdure.run("answer", "g1", "approve") == 2
    assert f"{RUN}:{NAMED}, agent-b-1:{NAMED}" in perdure.err
    assert perdure.gateway.sent == []


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (None, "no worker answers for it."),
        ("paused at the Temporal server by ops.", "paused at the Temporal server by ops."),
    ],
)
def test_no_gate_is_denied_of_a_run_that_cannot_be_heard(
    perdure: Installation, trouble: str | None, told: str
) -> None:
    silent = status(lifecycle="waiting", source="store", trouble=trouble)
    perdure.gateway.statuses[RUN] = silent
    perdure.gateway.unread = (RUN,)
    assert perdure.run("answer", f"{RUN}:g1", "approve") == 3
    assert f"What the run {RUN} asks is not known now: {told}" in perdure.err
    assert perdure.run("answer", "g1", "approve") == 3
    assert f"what these ask is not known now: {RUN}." in perdure.err
    perdure.gateway.statuses[RUN] = silent.model_copy(update={"phase": "ended"})
    assert perdure.run("answer", f"{RUN}:g1", "approve") == 4


def test_json_gives_receipts_and_errors_as_lines(perdure: Installation) -> None:
    assert perdure.run("pause", RUN, "--json") == 0
    receipt = json.loads(perdure.out)
    assert receipt == {
        "type": "receipt",
        "run": RUN,
        "verb": "pause",
        "lifecycle": "running",
        "note": "",
    }
    perdure.gateway.refusals[RUN] = NoReadyWorker("No worker answers.", cure="Start one.")
    assert perdure.run("--json", "pause", RUN) == 3
    assert json.loads(perdure.out)["code"] == "no_ready_worker"


def test_a_repair_tells_what_it_left_out(perdure: Installation) -> None:
    perdure.remembers = True
    assert perdure.run("repair", RUN) == 0
    assert "goes on from event 9; 2 messages were sent again" in perdure.out
    assert "left out: pause 7" in perdure.out
    assert perdure.run("repair", RUN, "--repeat") == 0
    assert perdure.gateway.repeats == [False, True]
    assert perdure.run("audit") == 0
    assert "run repaired" in perdure.out and RUN in perdure.out
