"""What this process was configured with is told nowhere, however it is spelled."""

import pytest

from perdure.adapters.logging.redacting import (
    data_without_secrets,
    keep_secret,
    secrets_of_url,
    spellings,
    without_secrets,
)
from perdure.domain.foundation.redaction import REDACTED, redacted


@pytest.mark.parametrize("shown", sorted(spellings('a"b/c d9')))
def test_a_configured_secret_is_known_however_it_is_spelled(shown: str) -> None:
    assert redacted(f"({shown})", spellings('a"b/c d9')) == f"({REDACTED})"


def test_short_values_are_no_secrets_that_could_be_found() -> None:
    assert spellings("test") == frozenset()


def test_the_password_of_an_url_is_found() -> None:
    assert secrets_of_url("postgresql://u:p%40ss@h/db") == ("p%40ss",)
    assert secrets_of_url("sqlite:////tmp/x") == ()


def test_what_is_kept_secret_is_told_no_more() -> None:
    keep_secret(["zanzibar-1", "zanzibar-1-and-more", None, "short"])
    assert (
        without_secrets("zanzibar-1-and-more, zanzibar-1, short")
        == f"{REDACTED}, {REDACTED}, short"
    )
    assert without_secrets(ValueError("no zanzibar-1")) == f"no {REDACTED}"
    assert data_without_secrets({"a": ["zanzibar-1"]}) == {"a": [REDACTED]}
