"""Connects to Temporal, with address, profile, converter and plugins."""

import asyncio

import structlog
from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig

from perdure.adapters.settings.variables import Settings
from perdure.adapters.telemetry import Telemetry
from perdure.adapters.temporal.activity_context import StepLoggingPlugin
from perdure.adapters.temporal.data_converter import data_converter
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.domain.ports import BlobStore

CONNECT_WITHIN_S = 15.0

_log = structlog.get_logger(__name__)


def address_of(settings: Settings, fallback: str) -> str:
    """The address of the named server, or else of the embedded one."""
    return settings.temporal.address or fallback


async def connect(
    settings: Settings,
    *,
    fallback: str,
    blobs: BlobStore | None,
    telemetry: Telemetry,
    tolerant: bool = False,
) -> Client:
    """Connect with the profile's TLS and key.

    Args:
        settings: their profile names the server.
        fallback: the address of the embedded server, used if no server is named.
        blobs: the store for large payloads.
        telemetry: plugins and a runtime for traces and metrics, or none.
        tolerant: pass values on that cannot be decrypted, as a worker must.

    Raises:
        ServiceUnavailable: the server does not answer.
        InvalidInput: the key or codec that a setting names is not available.
    """
    address = address_of(settings, fallback)
    options: ClientConnectConfig = settings.temporal.to_client_connect_config()
    options["target_host"] = address
    options["namespace"] = settings.namespace
    codec = None
    if settings.payload_codec is not None:
        # Imported on demand, since few installations have a codec of their own.
        from perdure.adapters.temporal.payload_codec import payload_codec

        codec = payload_codec(settings)
    try:
        # Without this limit, the client would retry a silent server again and again.
        async with asyncio.timeout(CONNECT_WITHIN_S):
            return await Client.connect(
                **options,
                data_converter=data_converter(
                    blobs,
                    encryption_keys(settings),
                    tolerant=tolerant,
                    plain=settings.encryption_plain == "read",
                    codec=codec,
                ),
                plugins=[*telemetry.plugins, StepLoggingPlugin()],
                runtime=telemetry.runtime,
            )
    except (RuntimeError, OSError) as error:
        _log.debug("temporal_unreachable", address=address, error=str(error))
        silent = isinstance(error, TimeoutError)
        why = cause_in_words(
            error, otherwise="no answer in time" if silent else "the connection failed"
        )
        raise ServiceUnavailable(
            f"The Temporal server at {address} does not answer: {why}.",
            cure="Start it (`perdure up` for the embedded one) or correct TEMPORAL_ADDRESS.",
        ) from error
