"""The parts of a model's name with a provider prefix, such as `openai:gpt-5`."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

from perdure.domain.foundation.names import COMPATIBLE, PROVIDERS

# What the price list calls our providers.
PRICED_AS: Mapping[str, str] = MappingProxyType(
    {
        "anthropic": "anthropic",
        "bedrock": "aws",
        "vertex": "google",
        "foundry": "azure",
        "openai": "openai",
        "azure": "azure",
    }
)


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of this package, and a module by which to see whether it is installed."""

    name: str
    module: str


_OPENAI = Extra("openai", "openai")
EXTRAS: Mapping[str, Extra] = MappingProxyType(
    {
        "openai": _OPENAI,
        "azure": _OPENAI,
        COMPATIBLE: _OPENAI,
        "bedrock": Extra("bedrock", "boto3"),
        "vertex": Extra("vertex", "google.auth"),
    }
)


def lacking_package(family: str) -> str:
    """What to install for a provider; empty if nothing is missing."""
    extra = EXTRAS.get(family.partition(":")[0])
    if extra is None:
        return ""
    try:
        found = find_spec(extra.module) is not None
    except ModuleNotFoundError:  # a package above the module is missing
        found = False
    return "" if found else f"Install its client: pip install 'perdure[{extra.name}]'."


@dataclass(frozen=True, slots=True)
class ModelName:
    """The provider of a model, its name there, and the entry of a compatible server.

    `provider` is empty for a name without a prefix.
    """

    provider: str
    model: str
    server: str = ""


def model_name(name: str) -> ModelName:
    """The parts of a name."""
    prefix, mark, rest = name.partition(":")
    if not mark or prefix not in PROVIDERS:
        return ModelName("", name)
    if prefix == COMPATIBLE:
        server, _, model = rest.partition("/")
        return ModelName(COMPATIBLE, model, server)
    return ModelName(prefix, rest)
