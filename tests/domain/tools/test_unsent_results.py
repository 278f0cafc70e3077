"""A result that did not arrive is told apart from an activity that failed."""

import pytest

from perdure.domain.tools.unsent_results import why_unsent

ENCODING = (
    '  File "temporalio/worker/_activity.py", line 387, in _handle_start_activity_task\n'
    "    [payload] = await data_converter.encode([result])\n"
)
WORKING = '  File "shop.py", line 3, in charge\n    raise ValueError("no card")\n'
UNSENT = {
    "too large": ("PayloadsTooLarge", "[TMPRL1103] Attempted to upload", "", "larger than"),
    "too large for an older server": ("error", "Complete result exceeds size limit.", "", "larger"),
    "default converter": (
        "TypeError", "Object of type Plain is not JSON serializable", "", "Object of type Plain",
    ),
    "no converter": ("RuntimeError", "Value of type Plain has no known converter", "", "encoded"),
    "pydantic": ("PydanticSerializationError", "Unable to serialize", "", "Unable to serialize"),
    "converter of their own": ("ValueError", "no such unit", ENCODING, "ValueError: no such unit"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "trace", "told"), UNSENT.values(), ids=UNSENT.keys())
def test_a_result_that_did_not_arrive(kind: str, message: str, trace: str, told: str) -> None:
    why = why_unsent(kind, message, trace)
    assert why is not None
    assert told in why
    assert "has to return" in why


@pytest.mark.parametrize("kind", ["ActivityPause", "ActivityReset"])
def test_an_activity_that_was_stopped_at_the_server(kind: str) -> None:
    why = why_unsent(kind, "Unhandled activity cancel error produced by activity pause", "")
    assert why is not None
    assert "paused or reset" in why


@pytest.mark.parametrize(
    ("kind", "message", "trace"),
    [("Empty", "nothing to charge for", ""), ("ValueError", "no card", WORKING)],
)
def test_an_activity_that_failed(kind: str, message: str, trace: str) -> None:
    assert why_unsent(kind, message, trace) is None
