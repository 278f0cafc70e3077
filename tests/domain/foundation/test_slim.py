"""Values that a loop keeps by the hundred share the set that names their fields."""

from datetime import UTC, datetime

from perdure.domain.foundation.base import share_field_names
from perdure.domain.run.events import Event, Ring

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_slim_value_is_the_same_value() -> None:
    event = Event(seq=1, at=AT, run="r", iteration=0, type="paused")
    before = event.model_dump_json()
    assert share_field_names(event) is event
    assert event.model_dump_json() == before
    assert event == Event.model_validate_json(before)


def test_a_copy_of_one_leaves_the_others_as_they_are() -> None:
    ring = Ring()
    for _ in range(2):
        ring = ring.note("paused", at=AT, run="r", iteration=0)
    one, other = ring.events
    assert one.model_fields_set is other.model_fields_set
    changed = one.model_copy(update={"iteration": 7})
    assert (changed.iteration, one.iteration, other.iteration) == (7, 0, 0)
    assert changed.model_fields_set is not other.model_fields_set
