"""Checks of `doctor`: whether every secret reference in the settings can be resolved."""

from collections.abc import Iterator

from pydantic import SecretStr

from perdure.adapters.settings.files import REFERENCES, SECRETS
from perdure.adapters.settings.library_secrets import library_references
from perdure.adapters.settings.secret_references import is_reference, resolve_reference
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.services import Check

NAME = "secrets"


def references(settings: Settings) -> Check:
    """Resolve each reference; this runs commands that references name."""
    wrong: list[InvalidInput] = []
    count = 0
    for place, reference in _references(settings):
        count += 1
        try:
            resolve_reference(place, reference)
        except InvalidInput as error:
            wrong.append(error)
    if wrong:
        found = " ".join(error.message for error in wrong)
        return Check(name=NAME, state="failed", found=found, cure=wrong[0].cure)
    found = f"{count} references lead to a secret" if count else "no setting refers to one"
    return Check(name=NAME, state="ok", found=found)


def _references(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each setting that holds a secret reference, with the reference."""
    for name in sorted(SECRETS | REFERENCES | {"database_url"}):
        value: object = getattr(settings, name)
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value or "")
        if is_reference(text):
            yield f"PERDURE_{name.upper()}", text
    for text in settings.encryption_old_keys:
        yield "PERDURE_ENCRYPTION_OLD_KEYS", text
    for name, server in settings.providers.items():
        if server.key_reference:
            yield f"The key of the provider {name!r}", server.key_reference
    yield from library_references().items()
