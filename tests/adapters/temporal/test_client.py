import socket
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.adapters.telemetry import Telemetry
from perdure.adapters.temporal import client
from perdure.adapters.temporal.client import connect
from perdure.domain.foundation.errors import ServiceUnavailable
from tests.local_services.support import free_port


async def test_a_server_that_is_away_is_named_in_words(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ServiceUnavailable) as caught:
        await connect(
            Settings.load(home=tmp_path), fallback=address, blobs=None, telemetry=Telemetry()
        )
    assert caught.value.message == (
        f"The Temporal server at {address} does not answer: connection refused."
    )


async def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_WITHIN_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServiceUnavailable, match=f"{address} does not answer: no answer in"):
            await connect(
                Settings.load(home=tmp_path), fallback=address, blobs=None, telemetry=Telemetry()
            )
