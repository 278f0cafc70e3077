"""Which requests are sent again, for how long, and which never."""

import asyncio
from collections.abc import Sequence

import pytest
from temporalio.service import RPCError, RPCStatusCode

from perdure.gateway import server_connection
from perdure.gateway.server_connection import while_away, while_busy

BUSY = RPCError("namespace rate limit exceeded", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
LARGE = RPCError("grpc: received message larger than max", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
AWAY = RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b"")
DENIED = RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")


class Server:
    """Answers with errors first, each after some seconds of a clock that pauses move."""

    def __init__(
        self, errors: Sequence[RPCError], patch: pytest.MonkeyPatch, *, takes_s: float = 0.0
    ) -> None:
        self.errors, self.asked = list(errors), 0
        self.now, self.takes_s = 0.0, takes_s
        really = asyncio.sleep

        async def sleep(seconds: float) -> None:
            self.now += seconds
            await really(0)

        patch.setattr(server_connection.asyncio, "sleep", sleep)
        patch.setattr(asyncio.get_running_loop(), "time", lambda: self.now, raising=False)

    async def ask(self) -> str:
        self.asked += 1
        self.now += self.takes_s
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_a_request_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        server = Server([BUSY] * 5, patch)
        assert await while_busy(server.ask, at_most_s=60) == "done"
    assert server.asked == 6


async def test_a_server_without_room_is_given_up_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        server = Server([BUSY] * 500, patch)
        with pytest.raises(RPCError, match="rate limit"):
            await while_busy(server.ask, at_most_s=60)
    assert server.now <= 60
    assert server.asked > 5


@pytest.mark.parametrize("error", [LARGE, AWAY, DENIED], ids=["large", "away", "denied"])
async def test_what_waiting_does_not_cure_is_raised_at_once(
    monkeypatch: pytest.MonkeyPatch, error: RPCError
) -> None:
    with monkeypatch.context() as patch:
        server = Server([error], patch)
        with pytest.raises(RPCError):
            await while_busy(server.ask, at_most_s=60)
    assert server.asked == 1


async def test_each_outage_of_a_long_wait_has_the_whole_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        # A wait for a result lasts an hour, and ends with a short outage each time.
        server = Server([AWAY] * 5, patch, takes_s=3600)
        assert await while_away(server.ask, at_most_s=90) == "done"
    assert server.asked == 6


async def test_the_clients_own_retries_are_no_answer_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        # With an embedded server the patience is shorter than what the client takes for itself.
        server = Server([AWAY] * 50, patch, takes_s=10)
        with pytest.raises(RPCError, match="tcp connect error"):
            await while_away(server.ask, at_most_s=6)
    assert server.asked <= 2
