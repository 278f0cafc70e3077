"""Signed webhooks: the receiver of the docs knows them, and secrets that are none are refused."""

import asyncio
import base64
import json
import re
import shutil
from pathlib import Path

import pytest

from perdure.adapters.notifiers import notifier, signed_headers, signing_secret
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from tests.adapters.test_notifiers import EVENT, Receiver, receiver

__all__ = ["receiver"]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "operations.md"
# Prints whether the receiver of the docs takes a delivery, and whether it takes other bytes.
ASKED = """
const [headers, body, secret] = JSON.parse(process.argv[1]);
const bytes = Buffer.from(body);
const old = { ...headers, "webhook-timestamp": "1614265330" };
const more = Buffer.concat([bytes, Buffer.from(" ")]);
const found = [genuine(headers, bytes, secret), genuine(headers, more, secret),
  genuine(old, bytes, secret), genuine({}, bytes, secret)];
console.log(JSON.stringify(found));
"""


def example() -> dict[str, object]:
    """What the verification example of the docs defines."""
    made: dict[str, object] = {}
    text = PAGE.read_text(encoding="utf-8").split("```python\nimport base64")[1].split("```")[0]
    exec(f"import base64{text}", made)
    return made


async def test_the_example_of_the_docs_knows_a_webhook(receiver: Receiver, tmp_path: Path) -> None:
    kept = tmp_path / "secret"
    kept.write_text(f"{SECRET}\n")
    settings = Settings.load(notify_webhook=receiver.url, notify_secret=f"file:{kept}")
    for _ in range(2):
        assert await notifier(settings).notify(EVENT) is True
    genuine = example()["genuine"]
    assert callable(genuine)
    (_, first, body), (_, again, _) = receiver.came
    assert first["webhook-id"] == again["webhook-id"]
    assert genuine(first, body, SECRET)
    assert not genuine(first, body + b" ", SECRET)
    assert not genuine(first | {"webhook-id": "msg_other"}, body, SECRET)
    assert not genuine(first, body, "whsec_" + base64.b64encode(b"o" * 32).decode())
    assert not genuine(first | {"webhook-timestamp": "1614265330"}, body, SECRET)


def test_an_id_has_no_dots() -> None:
    headers = signed_headers(b"s" * 32, key="a.b/g1/0", at=1, body=b"{}")
    assert "." not in headers["webhook-id"]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
async def test_the_example_for_node_knows_a_webhook(receiver: Receiver, tmp_path: Path) -> None:
    kept = tmp_path / "secret"
    kept.write_text(f"{SECRET}\n")
    settings = Settings.load(notify_webhook=receiver.url, notify_secret=f"file:{kept}")
    assert await notifier(settings).notify(EVENT) is True
    ((_, headers, body),) = receiver.came
    (example,) = re.findall(r"```js\n(.*?)```", (DOCS / "rest.md").read_text(), re.DOTALL)
    asked = json.dumps([headers, body.decode(), f"{SECRET}\n"])
    process = await asyncio.create_subprocess_exec(
        "node", "--input-type=module", "-e", example + ASKED, asked, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert json.loads(told) == [True, False, False, False]


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (None, "refers to env:HOOK_SIGNING, but that variable is not set"),
        ("", "refers to env:HOOK_SIGNING, but it is empty"),
        ("whsec_???", "not base64"),
        ("whsec_c2hvcnQ=", "has 5 bytes"),
    ],
    ids=["none", "empty", "no base64", "short"],
)
def test_what_is_no_secret_is_refused_with_the_cure(
    secret: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if secret is not None:
        monkeypatch.setenv("HOOK_SIGNING", secret)
    with pytest.raises(InvalidInput, match=said) as refused:
        signing_secret("env:HOOK_SIGNING")
    assert "openssl rand" in str(refused.value.cure)
