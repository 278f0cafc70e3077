"""The user's own payload codec, which a setting names."""

import importlib

from temporalio.converter import PayloadCodec

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.extending.foreign_code import contained, named

VARIABLE = "PERDURE_PAYLOAD_CODEC"
CURE = f"Set {VARIABLE} to PACKAGE.MODULE:NAME of a function that returns your codec."


def payload_codec(settings: Settings) -> PayloadCodec | None:
    """The codec that the function in the setting returns; None if the setting is empty.

    Raises:
        InvalidInput: the function cannot be imported, fails or returns no codec, or an encryption
            key is set too.
    """
    place = settings.payload_codec
    if place is None:
        return None
    if settings.encryption_key is not None:
        raise InvalidInput(
            f"{VARIABLE} and PERDURE_ENCRYPTION_KEY are set: both would encrypt.",
            cure="Unset PERDURE_ENCRYPTION_KEY, so that only your codec encrypts.",
        )
    module, _, name = place.partition(":")
    try:
        with contained():
            made: object = getattr(importlib.import_module(module), name)()
    except Exception as error:  # the user's code may raise anything
        raise InvalidInput(
            f"{VARIABLE} names {place}, which fails: {without_secrets(named(error))}.",
            cure=f"{CURE} Its package must be installed wherever Perdure runs.",
        ) from error
    if not isinstance(made, PayloadCodec):
        raise InvalidInput(
            f"{VARIABLE} names {place}, which returns {type(made).__name__}, no payload codec.",
            cure=CURE,
        )
    return made
