"""A provider's wish how long to wait, in every form that was ever seen."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.retry_after import retry_after_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DATE = {"date": format_datetime(NOW, usegmt=True)}


def at(seconds: int) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": " 1.5 "}, 1.5, id="fraction"),
        pytest.param({"retry-after": "0"}, 0.0, id="zero"),
        pytest.param({"retry-after": "-3"}, 0.0, id="negative"),
        pytest.param({"retry-after": "100000000"}, 1e8, id="three years"),
        pytest.param({"retry-after": "1e400"}, None, id="infinite"),
        pytest.param({"retry-after": "nan"}, None, id="not a number"),
        pytest.param({"retry-after": "soon"}, None, id="nonsense"),
        pytest.param({"retry-after": "99 Foo 2026 25:61:61"}, None, id="nonsense date"),
        pytest.param({"retry-after": ""}, None, id="empty"),
        pytest.param({}, None, id="absent"),
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, 0.25, id="milliseconds win"),
        pytest.param({"retry-after-ms": "x", "retry-after": "9"}, 9.0, id="milliseconds nonsense"),
        pytest.param(DATE | {"retry-after": at(30)}, 30.0, id="date"),
        pytest.param(DATE | {"retry-after": at(-30)}, 0.0, id="date gone by"),
    ],
)
def test_wish_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_of(headers) == seconds


def test_date_without_the_servers_clock_is_measured_against_ours() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    found = retry_after_of({"retry-after": soon})
    assert found is not None
    assert 30 < found <= 61


@given(st.text(max_size=40))
def test_any_text_gives_none_or_a_wait(text: str) -> None:
    found = retry_after_of({"retry-after": text})
    assert found is None or found >= 0
