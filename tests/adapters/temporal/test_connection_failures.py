"""Each way in which a connection fails is told by its setting, its value and its cure."""

import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from certificates import Pair, authority, signed
from restricted import RestrictedServer, restricted
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.settings.variables import Settings
from perdure.adapters.telemetry import Telemetry
from perdure.adapters.temporal import client
from perdure.adapters.temporal.client import connect
from perdure.domain.foundation.errors import InvalidInput, PerdureError, ServiceUnavailable
from tests.local_services.support import free_port

CERT, KEY, CA = (
    "TEMPORAL_TLS_CLIENT_CERT_PATH",
    "TEMPORAL_TLS_CLIENT_KEY_PATH",
    "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
)


@dataclass(frozen=True)
class House:
    """A server, one with TLS, one that wants client certificates, and files of clients."""

    folder: Path
    plain: RestrictedServer
    tls: RestrictedServer
    mutual: RestrictedServer

    def file(self, name: str) -> str:
        """The path of one of the files."""
        return str(self.folder / name)


@pytest.fixture
async def house(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[House]:
    """Servers and files."""
    ours, theirs = authority("ours"), authority("theirs")
    serving = signed(ours, "server")
    pairs = {
        "good": signed(ours, "client"),
        "strange": signed(theirs, "stranger"),
        "old": signed(ours, "old", ends_in=timedelta(days=-1)),
        "ours": ours,
        "theirs": theirs,
    }
    for name, pair in pairs.items():
        _write(tmp_path, name, pair)
    (tmp_path / "junk.pem").write_text("junk")
    pair = [(serving.key_pem, serving.pem)]
    alone = grpc.ssl_server_credentials(pair)
    mutual = grpc.ssl_server_credentials(pair, ours.pem, require_client_auth=True)
    async with (
        restricted(server.client) as plain,
        restricted(server.client, alone) as encrypted,
        restricted(server.client, mutual) as both,
    ):
        yield House(tmp_path, plain, encrypted, both)


def _write(folder: Path, name: str, pair: Pair) -> None:
    (folder / f"{name}.pem").write_bytes(pair.pem)
    (folder / f"{name}.key").write_bytes(pair.key_pem)


async def refused(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    variables: Mapping[str, str],
    *,
    patience_s: float = 0.0,
) -> PerdureError:
    """The error of a connection with these variables, with values named by what they are."""
    for name in [one for one in os.environ if one.startswith("TEMPORAL_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        at = {"plain": house.plain, "tls": house.tls, "mutual": house.mutual}.get(value)
        is_file = value.endswith((".pem", ".key"))
        text = at.address if at else house.file(value) if is_file else value
        monkeypatch.setenv(name, text)
    with pytest.raises(PerdureError) as caught:
        await connect(
            Settings.load(home=house.folder),
            fallback="127.0.0.1:1",
            blobs=None,
            telemetry=Telemetry(),
            patience_s=patience_s,
        )
    return caught.value


def _token(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


CASES = {
    "no port": (
        {"TEMPORAL_ADDRESS": "127.0.0.1"},
        "TEMPORAL_ADDRESS is '127.0.0.1', which is no HOST:PORT",
        "Give host and port",
    ),
    "a URL": (
        {"TEMPORAL_ADDRESS": "https://127.0.0.1:1"},
        "TEMPORAL_ADDRESS is 'https://127.0.0.1:1', which is no HOST:PORT",
        "Give host and port",
    ),
    "no such host": (
        {"TEMPORAL_ADDRESS": "no-such-host.invalid:7233"},
        "no such host no-such-host.invalid (DNS)",
        "Correct TEMPORAL_ADDRESS",
    ),
    "a plain server, TLS on": (
        {"TEMPORAL_ADDRESS": "plain", "TEMPORAL_TLS": "true"},
        "does not speak TLS, and TLS is on",
        "TEMPORAL_TLS=false",
    ),
    "a plain server, a key": (
        {"TEMPORAL_ADDRESS": "plain", "TEMPORAL_API_KEY": "sk-very-secret"},
        "does not speak TLS, and an API key is set",
        "TEMPORAL_TLS=false",
    ),
    "a server with TLS, none here": (
        {"TEMPORAL_ADDRESS": "tls"},
        "ended the connection at once, without TLS",
        "TEMPORAL_TLS=true",
    ),
    "an authority that nobody knows": (
        {"TEMPORAL_ADDRESS": "tls", "TEMPORAL_TLS": "true"},
        "is not trusted by this system",
        CA,
    ),
    "another authority": (
        {"TEMPORAL_ADDRESS": "tls", CA: "theirs.pem"},
        f"is not trusted by the authority of {CA}",
        CA,
    ),
    "another name": (
        {"TEMPORAL_ADDRESS": "tls", CA: "ours.pem", "TEMPORAL_TLS_SERVER_NAME": "else.example"},
        "is not for the name else.example",
        "TEMPORAL_TLS_SERVER_NAME",
    ),
    "no client certificate": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem"},
        "may want a client certificate, and none is set",
        f"{CERT} and {KEY}",
    ),
    "a key where a certificate is wanted": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem", "TEMPORAL_API_KEY": "sk-very-secret"},
        "may want a client certificate, and none is set",
        "REGION.PROVIDER.api.temporal.io:7233",
    ),
    "a strange client certificate": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem", CERT: "strange.pem", KEY: "strange.key"},
        "strange.pem (CN=stranger, valid until ",
        "signed by an authority that the namespace trusts",
    ),
    "an old client certificate": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem", CERT: "old.pem", KEY: "old.key"},
        "old.pem (CN=old, expired on ",
        "Use a certificate that is valid",
    ),
    "a key of another": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem", CERT: "good.pem", KEY: "old.key"},
        "does not belong to the certificate",
        "the two files of one pair",
    ),
    "a file that is not there": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem", CERT: "none.pem", KEY: "good.key"},
        "none.pem, which cannot be read: no such file or directory",
        "Correct the path",
    ),
    "a file that is no key": (
        {"TEMPORAL_ADDRESS": "mutual", CA: "ours.pem", CERT: "good.pem", KEY: "junk.pem"},
        "is no PEM file of its kind",
        "BEGIN PRIVATE KEY",
    ),
}  # fmt: skip
WRONG = {
    "no port",
    "a URL",
    "a key of another",
    "a file that is not there",
    "a file that is no key",
}


@pytest.mark.parametrize(("variables", "found", "cure"), CASES.values(), ids=CASES)
async def test_what_cannot_connect_is_told_by_its_setting(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    variables: Mapping[str, str],
    found: str,
    cure: str,
) -> None:
    error = await refused(house, monkeypatch, variables)
    assert found in error.message
    assert cure in error.cure
    assert "sk-very-secret" not in str(error)
    wrong = request.node.callspec.id in WRONG
    assert isinstance(error, InvalidInput if wrong else ServiceUnavailable)


ALONE = {"TEMPORAL_ADDRESS": "plain", "TEMPORAL_TLS": "false"}


async def test_a_key_that_is_missing_wrong_or_expired(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.plain.rules.keys = frozenset({"sk-the-right-one"})
    missing = await refused(house, monkeypatch, ALONE)
    assert "no API key is set" in missing.message
    assert "TEMPORAL_API_KEY" in missing.cure
    wrong = await refused(house, monkeypatch, {**ALONE, "TEMPORAL_API_KEY": "sk-of-another"})
    assert "refuses the API key of TEMPORAL_API_KEY: Request unauthorized" in wrong.message
    kept = house.folder / "cloud-key"
    kept.write_text(_token(exp=1_700_000_000))
    by_file = {**ALONE, "TEMPORAL_API_KEY": f"file:{kept}"}
    expired = await refused(house, monkeypatch, by_file)
    assert f"(file:{kept}) has expired on 2023-11-14 22:13 UTC" in expired.message
    assert "Make a new key" in expired.cure
    for told in map(str, (wrong, expired)):
        assert "sk-of-another" not in told
        assert kept.read_text() not in told


async def test_an_account_without_a_role_is_told_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.plain.rules.deny("*")
    error = await refused(house, monkeypatch, {**ALONE, "TEMPORAL_NAMESPACE": "shop"})
    assert "does not let this account use the namespace 'shop'" in error.message
    assert "a role in the namespace" in error.cure


async def test_what_can_never_succeed_ends_at_once_and_a_moment_without_room_does_not(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.plain.rules.deny("*")
    await refused(house, monkeypatch, ALONE, patience_s=60.0)
    assert house.plain.asked["GetSystemInfo"] == 1
    house.plain.rules.denied.clear()
    house.plain.rules.busy["GetSystemInfo"] = 2
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)
    settings = Settings.load(home=house.folder)
    await connect(settings, fallback="127.0.0.1:1", blobs=None, telemetry=Telemetry())
    assert house.plain.asked["GetSystemInfo"] == 4


async def test_a_server_that_is_away_is_awaited_by_the_patient_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)
    address = f"127.0.0.1:{free_port()}"
    error = await refused(house, monkeypatch, {"TEMPORAL_ADDRESS": address})
    assert error.message == f"The Temporal server at {address} does not answer: connection refused."
    house.plain.rules.denied.clear()
    await house.plain.cut()
    given = Settings.load(home=house.folder, task_queue="q")
    monkeypatch.setenv("TEMPORAL_ADDRESS", house.plain.address)
    given = Settings.load(home=house.folder)
    tries: list[float] = []

    async def back(seconds: float) -> None:
        tries.append(seconds)
        if len(tries) == 3:
            await house.plain.start()

    monkeypatch.setattr(client.asyncio, "sleep", back)
    await connect(given, fallback="127.0.0.1:1", blobs=None, telemetry=Telemetry(), patience_s=60.0)
    assert len(tries) == 3


async def test_a_silent_server_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_WITHIN_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServiceUnavailable, match=f"{address} does not answer: no answer in"):
            await connect(
                Settings.load(home=tmp_path), fallback=address, blobs=None, telemetry=Telemetry()
            )
