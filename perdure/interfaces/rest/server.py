"""Serves the application on a port: on loopback by default, elsewhere if somebody can sign in."""

import asyncio
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.installation.hosts import is_loopback, names_of
from perdure.interfaces.rest.connections import Addressed, BoundedProtocol
from perdure.interfaces.rest.endings import Endings
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.tokens import require_usable

CLOSING_S = 3
KEEP_ALIVE_S = 30
HIGHEST_PORT = 65_535


async def require_token_beyond_loopback(site: ApiSite, host: str) -> None:
    """Refuse to listen beyond loopback as long as nobody could sign in.

    Raises:
        NotAllowed: the host is not loopback, and there is neither a usable token nor single
            sign-on.
    """
    if is_loopback(host) or site.single_sign_on is not None:
        return
    where = f"The API does not listen on {host}"
    await require_usable(site.services.access, where, now=site.now())


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
    hosts: Iterable[str] = (),
    proxies: Sequence[str] = (),
) -> None:
    """Serve until `stop` is set; then close streams and give other requests a moment to finish.

    Args:
        app: the application.
        host: the address to listen on.
        port: the port to listen on; 0 takes a free one.
        stop: ends it.
        on_ready: gets the URL.
        hosts: further host names that requests may use.
        proxies: addresses and networks of proxies that say truly who their clients are.

    Raises:
        ServiceUnavailable: the address cannot be listened on.
    """
    listening = _listen(host, port)
    endings = Endings(app)
    config = uvicorn.Config(
        Addressed(endings, names=names_of(host, hosts)),
        http=BoundedProtocol,
        # Otherwise uvicorn sets up handlers of its own, past ours, which remove secrets.
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=CLOSING_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        # With `x-forwarded-for` anybody else could name any address as its own.
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    server = _Server(config, on_started=lambda: on_ready(_url(listening, host)))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        endings.begin()
        server.should_exit = True
        stopping.cancel()
        # Not cancelled: the server itself closes what is open, within its time limit.
        await serving
        if (
            cut_short := server.server_state.tasks
        ):  # uvicorn cancels requests at the time limit but does not wait for them
            await asyncio.wait(cut_short, timeout=CLOSING_S)
        listening.close()


class _Server(uvicorn.Server):
    """Reports when it listens, and leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config, *, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    try:
        if port > HIGHEST_PORT:  # the resolver would reduce it to another port
            raise OverflowError
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        # Else a server that is started again waits for minutes until its old connections are
        # forgotten.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
        raise ServiceUnavailable(
            f"Nothing can listen on {host} port {port}: {why or error}.",
            cure="Name another one with --port (of the REST API also PERDURE_API_PORT).",
        ) from error
    return listening


def _url(listening: socket.socket, host: str) -> str:
    port = listening.getsockname()[1]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
