"""Checks of `doctor`: the providers of models that are set up, beside Claude's own API."""

from collections.abc import AsyncIterator

import httpx2

from perdure.adapters.llm.access import ModelAccess, access_from, lacking_key
from perdure.adapters.llm.clouds import CLOUDS
from perdure.adapters.llm.model_names import lacking_package
from perdure.adapters.settings.providers import CompatibleServer
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.names import COMPATIBLE
from perdure.domain.foundation.redaction import redacted
from perdure.interfaces.services import Check

ANSWERS_WITHIN_S = 3.0
AT_WORKER = "Workers that run elsewhere may reach it all the same."


async def providers(settings: Settings) -> AsyncIterator[Check]:
    """A check for each provider that is set up here; none costs money."""
    access = access_from(settings)
    for family in set_up(access):
        lacking = lacking_package(family) or lacking_key(access, family)
        name = f"provider {family}"
        if lacking:
            yield Check(name=name, state="warning", found="cannot be called", cure=lacking)
        elif family.startswith(COMPATIBLE):
            server = family.partition(":")[2]
            key = access.server_keys.get(server)
            yield await _compatible(name, access.servers[server], key)
        else:
            yield Check(name=name, state="ok", found="a key is set (not tried)")


def set_up(access: ModelAccess) -> list[str]:
    """The providers with at least one setting."""
    found = [
        name
        for name, address in (("openai", access.openai), ("azure", access.azure))
        if address.key or address.url
    ]
    found += [
        name
        for name, cloud in CLOUDS.items()
        if any(not access.cloud_variables.isdisjoint(any_of) for any_of in cloud.needs)
    ]
    return [*found, *(f"{COMPATIBLE}:{name}" for name in access.servers)]


async def _compatible(name: str, server: CompatibleServer, key: str | None) -> Check:
    """Whether a server answers when it is asked for its models."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # Its URL may hold a credential too, and what `doctor` says is passed on with reports.
    place = redacted(server.url)
    try:
        async with httpx2.AsyncClient(timeout=ANSWERS_WITHIN_S) as client:
            answer = await client.get(f"{server.url.rstrip('/')}/models", headers=headers)
    except httpx2.HTTPError as error:
        found = f"{place} does not answer ({type(error).__name__})"
        return Check(name=name, state="warning", found=found, cure=AT_WORKER)
    # A server may lack the list of models and still work; a refused key would also fail calls.
    if answer.status_code in {401, 403}:
        cure = f"Check {server.key_variable or 'its `key`'}."
        return Check(name=name, state="warning", found=f"{place} refuses the key", cure=cure)
    return Check(name=name, state="ok", found=f"{place} answers")
