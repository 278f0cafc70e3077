"""Which folders a worker serves: those in use."""

from datetime import UTC, datetime, timedelta

import pytest

from perdure.domain.installation.workspace_use import UNUSED_AFTER, WorkspaceUse, served

NOW = datetime(2026, 1, 2, tzinfo=UTC)
JUST, LONG_AGO = NOW - timedelta(minutes=1), NOW - UNUSED_AFTER


@pytest.mark.parametrize(
    ("used_at", "busy", "there", "wanted"),
    [
        pytest.param(JUST, False, True, True, id="used a moment ago"),
        pytest.param(LONG_AGO, False, True, False, id="unused"),
        pytest.param(LONG_AGO, True, True, True, id="an open run"),
        pytest.param(JUST, False, False, False, id="gone"),
        pytest.param(JUST, True, False, True, id="gone under an open run"),
        pytest.param(None, False, True, True, id="by a door that does not tell"),
        pytest.param(None, False, False, False, id="gone, and nobody tells"),
    ],
)
def test_a_folder_is_served_while_it_is_used(
    used_at: datetime | None, busy: bool, there: bool, wanted: bool
) -> None:
    use = WorkspaceUse(id="a", path="/a", used_at=used_at, busy=busy)
    assert served([use], now=NOW, exists=lambda _: there) == ({"a": "/a"} if wanted else {})
