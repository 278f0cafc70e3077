from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.adapters.telemetry import Telemetry
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
