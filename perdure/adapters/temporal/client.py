"""Connects to Temporal, with address, profile, converter and plugins; says why if it fails."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from temporalio.client import Client, Plugin
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig
from temporalio.runtime import Runtime

from perdure.adapters.handing_on import HandedOn
from perdure.adapters.settings.variables import Settings
from perdure.adapters.telemetry import Telemetry
from perdure.adapters.temporal.activity_context import StepLoggingPlugin
from perdure.adapters.temporal.data_converter import data_converter
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, ServiceUnavailable
from perdure.domain.ports import BlobStore
from perdure.event_log import get_logger

if TYPE_CHECKING:
    from perdure.adapters.temporal.connection_failures import Failure

CONNECT_WITHIN_S = 15.0
"""For how long one attempt may take, and for how long a server without room is asked again."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
# The SDK raises a bare `AssertionError` for it, so that only its words tell.
FORKED = "across forks"

_log = get_logger(__name__)
_runtimes: WeakSet[Runtime] = WeakSet()
_forked_from: int | None = None


def address_of(settings: Settings, fallback: str) -> str:
    """The address of the named server, or else of the embedded one."""
    return settings.temporal.address or fallback


def strict(client: Client) -> Client:
    """The same connection, which raises for what it cannot decode; that of a worker passes it on.

    A collection needs it: what it cannot read may name blobs that a run still needs.
    """
    config = client.config(active_config=True)
    converter = config["data_converter"]
    if isinstance(codec := converter.payload_codec, HandedOn):
        config["data_converter"] = replace(converter, payload_codec=codec.strict)
    config["plugins"] = []  # they have configured this client already
    return Client(**config)


async def connect(
    settings: Settings,
    *,
    fallback: str,
    blobs: BlobStore | None,
    telemetry: Telemetry,
    tolerant: bool = False,
    patience_s: float = 0.0,
) -> Client:
    """Connect with the profile's TLS and key.

    Args:
        settings: their profile names the server.
        fallback: the address of the embedded server, used if no server is named.
        blobs: the store for large payloads.
        telemetry: plugins and a runtime for traces and metrics, or none.
        tolerant: pass values on that cannot be decrypted, as a worker must.
        patience_s: for how long to try again while the server is away. What the same settings
            cannot cure is raised at once.

    Raises:
        ServiceUnavailable: the server does not answer, or refuses this client.
        InvalidInput: the key or codec that a setting names is not available, or the address or a
            file of the connection cannot be used.
        NotAllowed: this process was forked off from one that had connected before.
    """
    codec = None
    if settings.payload_codec is not None:
        # Imported on demand, since few installations have a codec of their own.
        from perdure.adapters.temporal.custom_codec import payload_codec

        codec = payload_codec(settings)
    converter = data_converter(
        blobs,
        encryption_keys(settings),
        tolerant=tolerant,
        plain=settings.encryption_plain == "read",
        codec=codec,
    )
    return await connected(
        settings.temporal,
        address=address_of(settings, fallback),
        reference=settings.temporal_key_reference,
        converter=converter,
        plugins=[*telemetry.plugins, StepLoggingPlugin()],
        runtime=telemetry.runtime,
        patience_s=patience_s,
    )


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
        NotAllowed: as for `connect`.
    """
    limit_s = CONNECT_WITHIN_S if within_s is None else within_s
    clock, pause, told = asyncio.get_running_loop().time, FIRST_PAUSE_S, False
    began = clock()
    while True:
        try:
            # Without this limit, the client would retry a silent server again and again.
            async with asyncio.timeout(limit_s):
                options = _options(profile, address)
                connecting = partial(Client.connect, data_converter=converter, plugins=plugins)
                client = await _with_a_runtime(partial(connecting, **options), runtime)
            if reference is not None:
                _keep_renewed(client, reference)
            return client
        # `OSError` includes the timeout; the client raises `RuntimeError` for everything else.
        except (RuntimeError, OSError, ValueError) as error:
            failure = _why(error, address, profile, reference)
            patience = max(patience_s, limit_s if failure.busy else 0.0)
            if not failure.heals or clock() - began + pause > patience:
                kind = InvalidInput if failure.wrong else ServiceUnavailable
                raise kind(failure.message, cure=failure.cure) from error
            if not told:
                _log.warning("temporal_awaited", why=failure.message, patience_s=patience)
            told = True
        # Not all at one moment: the workers of a fleet lose their server together.
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE_S)


async def _with_a_runtime(
    connecting: Callable[..., Awaitable[Client]], runtime: Runtime | None
) -> Client:
    refuse_in_a_fork()
    _runtimes.add(runtime or Runtime.default())
    try:
        return await connecting(runtime=runtime)
    except AssertionError as error:  # the program had a runtime of its own before the fork
        if FORKED not in str(error):
            raise
        raise _not_in_a_fork("another one") from error


def refuse_in_a_fork() -> None:
    """Raise `NotAllowed` in a process forked off from one that had connected to Temporal.

    The threads of Temporal's core park in a table that is one for the whole process. In a fork the
    table still names the threads of the parent. Now and then a client there would crash, or wait
    for ever for a thread that does not exist, even with a runtime of its own.
    """
    if _forked_from is not None:
        raise _not_in_a_fork(f"process {_forked_from}")


def _not_in_a_fork(parent: str) -> NotAllowed:
    return NotAllowed(
        f"This process was forked off from {parent} after that had connected to Temporal. "
        "Connections do not survive a fork, and no new one is possible here.",
        cure="Connect in the parent only after it has forked, or start this process without a "
        'fork: multiprocessing.get_context("spawn"), or subprocess.',
    )


def _mind_the_fork() -> None:
    """Remember the fork, and keep the runtimes of the parent until this process ends.

    To drop one means to wait for its threads, which are not here: the process would hang or crash
    at its end. No variable holds for so long, so the interpreter is told of one more reference to
    each.
    """
    import ctypes  # few programs fork

    global _forked_from
    if _runtimes and _forked_from is None:
        _forked_from = os.getppid()
    for runtime in _runtimes:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(runtime))


os.register_at_fork(after_in_child=_mind_the_fork)


def _options(profile: ClientConfigProfile, address: str) -> ClientConnectConfig:
    if "://" in address:
        raise ValueError("an address has no scheme")  # the client would only warn
    options = profile.to_client_connect_config()
    options["target_host"] = address
    options["namespace"] = profile.namespace or "default"
    return options


def _why(
    error: BaseException, address: str, profile: ClientConfigProfile, reference: str | None
) -> "Failure":
    # Imported on demand: most connections succeed.
    from perdure.adapters.temporal.connection_failures import Attempt, connection_failure

    _log.debug("temporal_unreachable", address=address, error=str(error))
    return connection_failure(error, Attempt(address=address, profile=profile, reference=reference))


def _keep_renewed(client: Client, reference: str) -> None:
    from perdure.adapters.temporal.renewed_key import keep_renewed  # few have their key in a file

    keep_renewed(client, reference)
