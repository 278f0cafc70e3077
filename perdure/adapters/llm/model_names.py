"""Names of models with a provider in front, such as `openai:gpt-5`, in their parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

from perdure.domain.foundation.names import COMPATIBLE, PROVIDERS

# The providers as the price snapshot calls them.
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
    """An extra of ours, and a module that shows whether it is installed."""

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
    """What to install for a provider; empty where it is there."""
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
    """Who serves a model, what it is called there, and the entry of a compatible server.

    `provider` is empty for a name without one in front.
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
