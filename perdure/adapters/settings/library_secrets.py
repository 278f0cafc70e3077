"""Secrets in variables that libraries read by themselves, which may be references too.

A library would take `file:/run/secrets/key` for the key itself. So references are followed here,
and the secret is passed to the library. Variables that hold a secret itself are left to it.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from perdure.adapters.settings.secret_references import is_reference, secret_value
from perdure.adapters.settings.variables import inherited_environment

# The variable of a signal wins over the common one.
HEADERS = {
    signal: (f"OTEL_EXPORTER_OTLP_{signal}_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    for signal in ("TRACES", "METRICS")
}
OBJECT_STORES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
        "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_SAS_KEY"),
    }
)
MODELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bedrock": (*OBJECT_STORES["s3"], "AWS_BEARER_TOKEN_BEDROCK"),
        "foundry": ("ANTHROPIC_FOUNDRY_API_KEY",),
    }
)
_ALL = (
    *(name for names in HEADERS.values() for name in names),
    *(name for names in OBJECT_STORES.values() for name in names),
    *(name for names in MODELS.values() for name in names),
)


def library_references() -> dict[str, str]:
    """The variables that hold a reference, with the reference."""
    return {name: text for name, text in _held(_ALL).items() if is_reference(text)}


def followed(names: Sequence[str]) -> dict[str, str]:
    """The values of these variables with references followed; empty if none is a reference.

    All or none are returned, because a library that is passed one of several credentials no longer
    looks for the others.

    Raises:
        InvalidInput: a reference cannot be followed.
    """
    held = _held(names)
    if not any(map(is_reference, held.values())):
        return {}
    return {name: secret_value(name, text) for name, text in held.items()}


@contextmanager
def hide_references(names: Sequence[str]) -> Generator[None]:
    """Remove the references among these variables for the block: some libraries always read them.

    Use it only at the start of a process: other threads, and children started meanwhile, miss them
    too.
    """
    held = {name: text for name, text in library_references().items() if name in names}
    for name in held:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(held)


def _held(names: Sequence[str]) -> dict[str, str]:
    environment = inherited_environment()
    return {name: text for name in names if (text := environment.get(name, "").strip())}
