"""Confidence that a worker did not give, key findings, and the summary made of them."""

import pytest
from pydantic import JsonValue

from perdure.domain.delegation.confidence import (
    ToolUse,
    iteration_confidence,
    labelled_sureness,
    worker_confidence,
)
from perdure.domain.delegation.placeholders import placeholders
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.summary import Round, key_finding, rolling_summary


@pytest.mark.parametrize(
    ("given", "calls", "good", "text", "wanted"),
    [
        (0.73, 0, 0, "TODO", 0.73),
        (None, 0, 0, "fine", 0.1),
        (None, 4, 4, "fine", 0.7),
        (None, 4, 2, "fine", 0.4),
        (None, 4, 0, "fine", 0.1),
        (None, 4, 4, "TODO\nTBD", 0.6),
        (None, 4, 4, "TODO\n" * 6, 0.4),
        (None, 4, 4, "TODO\n" * 60, 0.4),
        (None, 0, 0, "TODO\n" * 60, 0.0),
    ],
)
def test_the_confidence_of_a_worker(
    given: float | None, calls: int, good: int, text: str, wanted: float
) -> None:
    assert worker_confidence(given, ToolUse(calls, good), text) == wanted


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("all is written", 0),
        ("TODO: write this", 1),
        ("# Plan\n\n- TODO: the second part\n- TBD\nFIXME(ada): here", 3),
        ("# TODO\n// FIXME: later\n<!-- TODO: a picture -->", 3),
        ("    return euros(net)  # TODO: add the tax", 1),
        ("    return net  // FIXME later", 1),
        ("Lorem ipsum dolor sit amet", 1),
        ("Dear [insert name],", 1),
        ("<your name here>", 1),
        ("(not yet implemented)", 1),
        ("TODO", 1),
        ("  tbd.\n", 1),
        ("{{ result }}", 1),
        ("[placeholder]", 1),
        ("a list [1, 2] and a link [text](address)", 0),
        ("[add to basket](/basket)", 0),
        ("todos are listed in the tool", 0),
        ("There are three open TODO comments in the code.", 0),
        ("El informe describe todo el proceso.", 0),
        ("TODO EL PERSONAL asistió.", 0),
        ("The input shows a placeholder until somebody types.", 0),
        ("Hello {{ name }}, your order {{ id }} is on its way.", 0),
        ("The export is not yet implemented upstream, so we call the old one.", 0),
        ("Designers call such text lorem ipsum.", 0),
        ("x < your limit", 0),
        ("# TODO app with Flask\n\nIt keeps a list.", 0),
        ("# TODO-List", 0),
        ("## TODO tools compared", 0),
        ("/* TODO app styles */", 0),
        ("<!-- TODO list -->", 0),
        ("// TODO items as the server gives them", 0),
        ("We met; TODO lists were compared.", 0),
        ("He keeps one of those -- TODO lists and so on.", 0),
        ("See https://example.org//TODO", 0),
        ("Click [Add to cart] to buy it.", 0),
        ("Press [Insert] and go on.", 0),
        ("Choose **[Your account]** in the list.", 0),
        ("The [Your orders] tab shows it.", 0),
        ("Use the [Add comment] button.", 0),
        ("Allowed: [insert, update, delete].", 0),
        ("It is in mode [insert only].", 0),
        ("row[insert + 1] = data[your key]", 0),
        ("See [your account][account].\n\n[your account]: https://example.org", 0),
        ('<insert id="a">INSERT INTO t VALUES (1)</insert>', 0),
        ("<insert>INSERT INTO t VALUES (1)</insert>", 0),
        ("<your-card wide>text</your-card>", 0),
        ("<insert-mode/>", 0),
        ("curl -H 'X-Key: <your_api_key>'", 0),
        ("Lorem ipsum generators: a survey of five", 0),
        ("# Lorem ipsum\n\nWhere the text comes from.", 0),
        ("It begins with “Lorem ipsum dolor sit amet” and goes on.", 0),
        ("# TODO: write this", 1),
        ("## TODO", 1),
        ("    # TODO add the tax", 1),
        ("-- TODO add an index", 1),
        ("x = 1 ; TODO: the rest", 1),
        ("/* TODO write the styles */", 1),
        ("<!-- TODO a picture -->", 1),
        ("We work at [your company] since [Insert Date].", 2),
        ("[insert 2-3 sentences]", 1),
        ("[add a picture here]", 1),
        ("[add details]", 1),
        ("[Your Name]", 1),
        ("<insert today's date>", 1),
        ("<p>Lorem ipsum dolor sit amet</p>", 1),
        ('{"text": "Lorem ipsum dolor sit amet"}', 1),
        ("Lorem ipsum ...", 1),
    ],
)
def test_placeholders_are_marks_of_missing_content(text: str, count: int) -> None:
    assert len(placeholders(text)) == count


def test_the_mean_leaves_crashed_workers_out() -> None:
    reports = [
        WorkerReport(worker="a", confidence=0.6),
        WorkerReport(worker="b", end="crashed", error="boom"),
        WorkerReport(worker="c", confidence=0.2),
    ]
    assert iteration_confidence(reports) == 0.4
    assert iteration_confidence(reports[1:2]) is None
    assert iteration_confidence([]) is None


@pytest.mark.parametrize(
    ("result", "error", "confidence", "wanted"),
    [
        ({"findings": ["two plants"], "result": "r"}, "", 0.5, "two plants"),
        ({"findings": ["two plants", "one animal"]}, "", 0.5, "2 items: two plants"),
        ({"findings": [], "result": "r"}, "", 0.5, "r"),
        ({"findings": ["", "n/a"], "result": "none", "summary": "s"}, "", 0.5, "s"),
        ({"result": {"words": 7, "note": ""}}, "", 0.5, "words: 7"),
        ({"analysis": "a", "answer": "b"}, "", 0.5, "a"),
        ({"answer": "b", "output": "c"}, "", 0.5, "b"),
        ({"output": "c"}, "", 0.5, "c"),
        ({"result": 0}, "", 0.5, "0"),
        ({"result": False}, "", 0.5, "False"),
        ({"result": "-"}, "no such file", 0.5, "tool error: no such file"),
        ({}, "", 0.42, "confidence 0.42"),
        ({}, "", None, "no result"),
        ({"result": "x" * 200}, "", None, f"{'x' * 149}…"),
        ({"result": "a\n\n  b"}, "", None, "a b"),
    ],
)
def test_the_first_usable_field_is_the_key_finding(
    result: dict[str, JsonValue], error: str, confidence: float | None, wanted: str
) -> None:
    assert key_finding(result, tool_error=error, confidence=confidence) == wanted


def test_an_empty_summary_says_so() -> None:
    assert rolling_summary([], window=3) == "Nothing was done yet."


def test_the_rolling_summary() -> None:
    worker = WorkerReport(worker="w1", subtask="s1", confidence=0.6, key_finding="two plants")
    crashed = WorkerReport(worker="w2", end="crashed", error="no memory")
    rounds = [
        *(Round(index=n, decision="delegate", confidence=n / 10) for n in range(1, 8)),
        Round(index=8, decision="plan", reason="too large", note="refused: locked"),
        Round(
            index=9,
            decision="delegate",
            reason="two are ready",
            confidence=0.6,
            workers=(worker, crashed),
        ),
    ]
    assert rolling_summary(rounds, window=3) == "\n".join(
        [
            "Iteration 9, confidence 0.60.",
            "",
            "Trend of confidence: 3: 0.30 → 4: 0.40 → 5: 0.50 → 6: 0.60 → 7: 0.70 → 9: 0.60",
            "",
            "Newest iterations:",
            "- 9 delegate, confidence 0.60, because: two are ready",
            "  - w1 (s1), confidence 0.60: two plants",
            "  - w2, no confidence: no memory",
            "- 8 plan, no confidence: refused: locked, because: too large",
            "- 7 delegate, confidence 0.70",
            "",
            "Older iterations:",
            *(f"- {n} delegate, confidence {n / 10:.2f}" for n in range(6, 0, -1)),
        ]
    )


def test_a_long_summary_says_how_many_iterations_it_leaves_out() -> None:
    rounds = [Round(index=n, decision="delegate", confidence=0.5) for n in range(951, 1_001)]
    text = rolling_summary(rounds, window=3)
    assert text.endswith("- and 957 before those")
    assert len(text) < 4_000


@pytest.mark.parametrize(
    "row",
    ["|", "[", "(", "| ", "confidence (", "my [", "confidence in my ", ".\t"],
)
def test_a_row_of_marks_hides_no_confidence_and_takes_no_time(row: str) -> None:
    assert labelled_sureness(row * 200_000) is None
    assert labelled_sureness(f"{row * 200_000}\nMy confidence: 0.7") == 0.7


def test_a_padded_cell_of_a_table_is_read() -> None:
    assert labelled_sureness(f"| x | y |\n|{' ' * 90}Confidence{' ' * 90}| 0.7 |") == 0.7
