"""What a namespace of Temporal needs for Perdure, and the command that gives it."""

from collections.abc import Iterable

from perdure.domain.names import SEARCH_ATTRIBUTES


def attributes_command(namespace: str, names: Iterable[str] = SEARCH_ATTRIBUTES) -> str:
    """The command of Temporal's CLI that adds search attributes to a namespace."""
    words = " ".join(f"--name {name} --type {SEARCH_ATTRIBUTES[name]}" for name in names)
    return f"temporal operator search-attribute create --namespace {namespace} {words}"
