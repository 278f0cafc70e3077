"""Credentials leave a text by their shape and by their value; everything else stays readable."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.domain.foundation import redaction
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.redaction import REDACTED, names_a_secret, redacted, redacted_data

SECRET = "hunter2-CorrectHorse9"
SHAPES = {
    "userinfo": f"cannot reach https://alice:{SECRET}@db.internal/x?y=1",
    "userinfo with an at sign": f"postgresql+psycopg://alice:p@{SECRET}@db:5432/runs",
    "user alone": f"redis://{SECRET}@cache:6379",
    "authorization": f"sent Authorization: Bearer {SECRET}",
    "authorization, basic": f"authorization: Basic {SECRET}==",
    "authorization without a scheme": f"authorization={SECRET}",
    "authorization as JSON": f'{{"Authorization": "Bearer {SECRET}", "b": 1}}',
    "authorization as JSON in JSON": f'{{\\"authorization\\": \\"token {SECRET}\\"}}',
    "authorization of a mapping": f"{{'authorization': 'Bearer {SECRET}'}}",
    "proxy": f"Proxy-Authorization: Basic {SECRET}",
    "bearer alone": f"the bearer {SECRET} was refused",
    "api key header": f"x-api-key: {SECRET}",
    "cookie": f"Cookie: session={SECRET}; theme=dark",
    "password in a DSN": f"host=db password={SECRET} dbname=runs",
    "variable": f"ANTHROPIC_API_KEY={SECRET} was set",
    "query": f"GET /v1?access_token={SECRET}&page=2",
    "short query": f"https://host/hook?key={SECRET}",
    "JSON field": f'{{"client_secret": "{SECRET}"}}',
    "provider key": "invalid x-api-key sk-ant-api03-AbCdEfGhIjKlMnOpQrSt",
    "our token": "perdure_0123abcd_" + "A" * 43,
    "git host": "remote: ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "chat": "xoxb-123456789012-abcdefABCDEF",
    "cloud": "credentials AKIAIOSFODNN7EXAMPLE are not valid",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    "private key, cut off": f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
}
SECRETS = (SECRET, "AbCdEfGhIjKl", "A" * 43, "123456789012-abc", "IOSFODNN7EXAMPLE", "dozjgNryP4J3")
HARMLESS = (
    "The model provider answered 529 overloaded_error: Overloaded.",
    "Send `authorization: Bearer …`, made with `perdure api token create`.",
    "authorization: Bearer TOKEN",
    "tokens: found 5, at most 3 are allowed",
    "max_output_tokens=8192, input_tokens=12",
    "https://docs.example.org/a/b?page=2&sort=name",
    "write to alice@example.org about https://example.org/",
    "budget.tokens: 200000 of 200000 used",
    "sha256:" + "0f" * 32,
    "the bearer of bad news",
    "skill-reviewer and task-runner-of-the-day",
    "secret: true on a dimension hides it",
)


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_credential_is_known_by_its_shape(text: str) -> None:
    clean = redacted(text)
    assert REDACTED in clean
    assert not [secret for secret in SECRETS if secret in clean], clean


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_credential_stays(text: str) -> None:
    assert redacted(text) == text


def test_what_remains_says_where_the_credential_was() -> None:
    assert redacted(f"https://alice:{SECRET}@db/x") == f"https://{REDACTED}@db/x"
    assert redacted(f"Authorization: Bearer {SECRET}, x") == f"Authorization: {REDACTED}, x"
    assert redacted("perdure_0123abcd_" + "A" * 43) == f"perdure_0123abcd_{REDACTED}"


def test_data_is_searched_through_and_keeps_its_form() -> None:
    data = {"a": [f"x-api-key: {SECRET}", 1, None], "b": {"c": True}}
    assert redacted_data(data) == {"a": [f"x-api-key: {REDACTED}", 1, None], "b": {"c": True}}


def test_an_error_of_ours_holds_no_credential() -> None:
    error = InvalidInput(f"https://u:{SECRET}@h", problems=[("url", f"x-api-key: {SECRET}")])
    assert SECRET not in f"{error} {error.message} {error.args} {error.problems}"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ANTHROPIC_API_KEY", True),
        ("GITHUB_TOKEN", True),
        ("PGPASSWORD", False),  # a name of its own, which only its shape betrays
        ("DB_PASSWORD", True),
        ("PATH", False),
        ("PERDURE_MAX_TOKENS", False),
        ("KEYBOARD", False),
    ],
)
def test_variables_are_secret_by_their_names(name: str, secret: bool) -> None:
    assert names_a_secret(name) is secret


@given(st.text(max_size=300))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000, "https://" * 20_000, "password=" * 20_000, "a-" * 100_000, "://a" * 50_000,
     "Authorization: " * 10_000, "-----BEGIN PRIVATE KEY-----" * 2_000, '"' * 100_000],
)  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    redacted(text)
    assert time.process_time() - began < 2


FRAGMENTS = st.sampled_from(
    (
        "password",
        "PassWd",
        "pa\u017f\u017fphra\u017fe",
        "secret",
        "api_key",
        "Api-\u212aey",
        "access_token",
        "cl\u0131ent_\u017fecret",
        "CREDENT\u0130AL",
        "credentials",
        "Authorization",
        "cookie",
        "x-auth-token",
        "bearer",
        "BEARER ",
        "basic ",
        "://",
        "@",
        "=",
        ": ",
        '"',
        "'",
        "\\",
        "&",
        "?",
        "sig",
        "pwd",
        "sk-",
        "sk-ant-",
        "perdure_0123abcd_",
        "ghp_",
        "github_pat_",
        "npm_",
        "rk_test_",
        "sk_live_",
        "xoxb-",
        "xapp-",
        "AKIA",
        "AIza",
        "eyJhbGciOi",
        ".",
        "https://hooks.slack.com/services/",
        "-----BEGIN PRIVATE KEY-----",
        "ABCDEFGH12345678",
        "abcdefghijklmnopqrstuvwxyz0123",
        " ",
        "\n",
    )
)


@settings(max_examples=600, deadline=None)
@given(st.lists(FRAGMENTS, max_size=12).map("".join))
def test_no_secret_is_passed_over_for_want_of_a_word(text: str) -> None:
    whole = text
    for pattern, kept, _ in redaction._SHAPES:
        whole = pattern.sub(kept if kept.endswith("@") else f"{kept}{REDACTED}", whole)
    assert redacted(text) == whole


@pytest.mark.parametrize(
    "name", ["\u017fecret", "API_\u212aEY", "cl\u0131ent_secret", "CREDENT\u0130AL"]
)
def test_letters_that_count_as_others_hide_nothing(name: str) -> None:
    assert redacted(f"{name}=swordfish") == f"{name}=[redacted]"
