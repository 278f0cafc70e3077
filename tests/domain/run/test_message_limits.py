"""What people may send to a run at once is bounded; what ends or frees it never is."""

import pytest

from perdure.domain.run.messages import (
    FLOOD,
    WAITING_KEPT,
    Amend,
    flood_refusal,
    size_refusal,
    waiting_refusal,
)


@pytest.mark.parametrize(
    ("verb", "handled", "refused"),
    [
        ("add_input", FLOOD - 1, False),
        ("add_input", FLOOD, True),
        ("amend", FLOOD, True),
        ("stop", FLOOD * 10, False),
        ("resume", FLOOD * 10, False),
        ("answer", FLOOD * 10, False),
    ],
)
def test_a_flood_of_updates_is_refused(verb: str, handled: int, refused: bool) -> None:
    assert (flood_refusal(verb, handled=handled) is not None) is refused


@pytest.mark.parametrize(
    ("waiting", "why"),
    [
        (["x"] * WAITING_KEPT, None),
        (["x"] * (WAITING_KEPT + 1), "100 messages wait"),
        (["x" * 70_000] * 2, "more than 128 thousand characters"),
    ],
    ids=["just enough", "too many", "too long together"],
)
def test_what_waits_to_be_read_is_bounded(waiting: list[str], why: str | None) -> None:
    told = waiting_refusal(*waiting)
    assert told is None if why is None else why in (told or "")


def test_a_large_amendment_is_refused() -> None:
    assert size_refusal(Amend(metadata={"x": "y"})) is None
    assert size_refusal(Amend(metadata={"x": "y" * 70_000})) is not None
