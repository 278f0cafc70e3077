"""Connects to Temporal, with address, profile, converter and plugins."""

from temporalio.client import Client

from perdure.adapters.settings.variables import Settings
from perdure.adapters.telemetry import Telemetry
from perdure.adapters.temporal.activity_context import StepLoggingPlugin
from perdure.adapters.temporal.connection import connected
from perdure.adapters.temporal.data_converter import data_converter
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.ports import BlobStore


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
    """
    codec = None
    if settings.payload_codec is not None:
        # Imported on demand, since few installations have a codec of their own.
        from perdure.adapters.temporal.payload_codec import payload_codec

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
