"""What an operator sets for single sign-on, and what is said where something is missing."""

import json
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.rest import single_sign_on

WHOLE = {
    "PERDURE_OIDC_ISSUER": "https://login.example.org",
    "PERDURE_OIDC_CLIENT_ID": "perdure",
    "PERDURE_OIDC_CLIENT_SECRET": "env:FROM_THE_PROVIDER",
    "PERDURE_OIDC_GROUPS": json.dumps({"engineers": ["read", "answer"], "*": ["read"]}),
    "FROM_THE_PROVIDER": "s3cret",
}


def settings(patch: pytest.MonkeyPatch, home: Path, **changes: str | None) -> Settings:
    for name, value in {**WHOLE, **changes}.items():
        patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
    return Settings.load(home=home)


def test_what_was_set_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = single_sign_on(settings(monkeypatch, tmp_path))
    assert found is not None
    assert found.provider.issuer == "https://login.example.org"
    assert found.groups == {"engineers": ("read", "answer"), "*": ("read",)}


def test_without_an_issuer_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert single_sign_on(settings(monkeypatch, tmp_path, PERDURE_OIDC_ISSUER=None)) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PERDURE_OIDC_CLIENT_ID", None),
        ("PERDURE_OIDC_CLIENT_SECRET", None),
        ("PERDURE_OIDC_GROUPS", None),
        ("PERDURE_OIDC_GROUPS", "{}"),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str | None
) -> None:
    with pytest.raises(InvalidInput, match=f"but {name} leads to nothing"):
        single_sign_on(settings(monkeypatch, tmp_path, **{name: value}))


def test_a_secret_that_is_not_there_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = settings(monkeypatch, tmp_path, PERDURE_OIDC_CLIENT_SECRET="the-secret-itself")
    with pytest.raises(InvalidInput, match="CLIENT_SECRET holds no reference") as caught:
        single_sign_on(given)
    assert "the-secret-itself" not in str(caught.value)


@pytest.mark.parametrize(
    ("groups", "told"),
    [('{"a": ["reed"]}', "oidc_groups|OIDC_GROUPS"), ("engineers", "OIDC_GROUPS|oidc_groups")],
)
def test_wrong_groups_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, groups: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        settings(monkeypatch, tmp_path, PERDURE_OIDC_GROUPS=groups)


@pytest.mark.parametrize("page", ["https://x.org", "http://127.0.0.1:8237", "http://loops.org"])
def test_a_page_that_others_can_read_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: str
) -> None:
    given = settings(monkeypatch, tmp_path, PERDURE_PAGE_URL=page)
    if page == "http://loops.org":
        with pytest.raises(InvalidInput, match="PERDURE_PAGE_URL: found") as caught:
            single_sign_on(given)
        assert "TLS" in caught.value.cure
    else:
        assert single_sign_on(given) is not None


PAGES = [
    "loops.example.org", "https://x.org/path", "https://u:p@x.org", "http://[", "http://[::::]:80",
    "https://x.org:port",
]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_an_address_of_the_page_has_no_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: str
) -> None:
    with pytest.raises(InvalidInput, match="PAGE_URL"):
        settings(monkeypatch, tmp_path, PERDURE_PAGE_URL=page)
