"""Makes a connection to Temporal, as patiently as its caller is; says why if it fails."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
from temporalio.client import Client, Plugin
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfigProfile
from temporalio.runtime import Runtime, TelemetryConfig

from perdure.domain.foundation.errors import InvalidInput, ServiceUnavailable

CONNECT_WITHIN_S = 15.0
"""For how long one attempt may take, and for how long a server without room is asked again."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
FORKED = "across forks"

_log = structlog.get_logger(__name__)


async def connected(
    profile: ClientConfigProfile,
    *,
    address: str,
    reference: str | None = None,
    converter: DataConverter = DataConverter.default,
    plugins: Sequence[Plugin] = (),
    runtime: Runtime | None = None,
    patience_s: float = 0.0,
    within_s: float | None = None,
) -> Client:
    """A client of the server at an address, connected as a profile says.

    Args:
        profile: TLS, key and namespace, with no reference in the place of the key.
        address: where the server is, whatever the profile says.
        reference: the reference that led to the key; the client follows one to a file again
            whenever the file changes.
        converter: of the client.
        plugins: of the client.
        runtime: of the client.
        patience_s: as for `connect`.
        within_s: the limit of one attempt.

    Raises:
        ServiceUnavailable: as for `connect`.
        InvalidInput: the address or a file of the connection cannot be used.
    """
    limit_s = CONNECT_WITHIN_S if within_s is None else within_s
    clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_S
    began, told = clock(), False
    while True:
        try:
            if "://" in address:
                raise ValueError("an address has no scheme")  # the client would only warn
            options = profile.to_client_connect_config()
            options["target_host"] = address
            options["namespace"] = profile.namespace or "default"
            # Without this limit, the client would retry a silent server again and again.
            async with asyncio.timeout(limit_s):
                client = await _with_a_runtime(
                    partial(
                        Client.connect,
                        **options,
                        data_converter=converter,
                        plugins=plugins,
                        runtime=runtime,
                    )
                )
            if reference is not None:
                _keep_renewed(client, reference)
            return client
        except (RuntimeError, OSError, ValueError) as error:
            # Imported on demand: most connections succeed.
            from perdure.adapters.temporal.connection_failures import Attempt, connection_failure

            _log.debug("temporal_unreachable", address=address, error=str(error))
            tried = Attempt(address=address, profile=profile, reference=reference)
            failure = connection_failure(error, tried)
            patience = max(patience_s, limit_s if failure.busy else 0.0)
            if failure.wrong:
                raise InvalidInput(failure.message, cure=failure.cure) from error
            if not failure.heals or clock() - began + pause > patience:
                raise ServiceUnavailable(failure.message, cure=failure.cure) from error
            if not told:
                _log.warning("temporal_awaited", why=failure.message, patience_s=patience)
            told = True
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE_S)


async def _with_a_runtime(connecting: Callable[[], Awaitable[Client]]) -> Client:
    """Connect; a process that was forked off gets a runtime of Temporal's core of its own.

    The one that it inherited has no threads. The SDK refuses it, for every client of the process.
    """
    try:
        return await connecting()
    except AssertionError as error:
        if FORKED not in str(error):
            raise
    Runtime.set_default(Runtime(telemetry=TelemetryConfig()), error_if_already_set=False)
    return await connecting()


def _keep_renewed(client: Client, reference: str) -> None:
    from perdure.adapters.temporal.renewed_key import keep_renewed  # few have their key in a file

    keep_renewed(client, reference)
