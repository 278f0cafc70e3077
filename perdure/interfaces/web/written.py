"""What a person wrote into a form that was not taken, so that no refusal loses it."""

from collections.abc import Mapping
from dataclasses import dataclass

# What the page itself puts into its forms.
_OURS = frozenset(
    {
        "form_key",
        "here",
        "args_hash",
        "choice",
        "scores",
        "once",
        "key",
        "gate",
        "run",
        "mode",
        "asked",
    }
)
# Secrets are never sent back.
_TOKEN_FIELDS = frozenset({"token", "ticket"})
_LABELS = {"text": "your words"}


@dataclass(frozen=True, slots=True)
class Written:
    """One field as it was filled in."""

    name: str
    text: str


def written(fields: Mapping[str, str]) -> tuple[Written, ...]:
    """The fields that a person filled in, in the order of the form."""
    return tuple(
        Written(_LABELS.get(name, name.rpartition(":")[2]), text)
        for name, text in fields.items()
        if text.strip() and name not in _OURS | _TOKEN_FIELDS
    )
