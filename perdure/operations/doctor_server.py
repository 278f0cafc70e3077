"""Checks of `doctor` on the Temporal server: fairness between tenants, and clocks."""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import stores_of
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.foundation.names import loops_queue
from perdure.gateway.clock_difference import server_ahead
from perdure.gateway.worker_probe import server_version
from perdure.interfaces.app_context import Connect
from perdure.interfaces.services import Check
from perdure.operations.clocks import CURE, SERVER, STORE, differences, named, store_ahead
from perdure.operations.doctor_checks import is_new, own_server

FAIRNESS, CLOCKS = "fairness", "clocks"
APART_S = 2.0
CLOUD = (".tmprl.cloud", ".api.temporal.io")


async def fairness(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether tenants share the workers; if the server does not say, what decides it."""
    if settings.temporal.address is None:
        found = "the embedded server gives each tenant its part of the workers"
        yield Check(name=FAIRNESS, state="ok", found=found)
        return
    with suppress(ServiceUnavailable):  # another check reports an absent server
        _, client = await own_server(settings, connect)
        host = settings.temporal.address.rpartition(":")[0]
        yield unsaid(host, await server_version(client))


def unsaid(host: str, version: str) -> Check:
    """The finding on a server that does not say whether fairness is on."""
    if host.endswith(CLOUD):
        decides = "unless it is switched on in the settings of the namespace"
    else:
        decides = f"unless server {version} has `matching.enableFairness: true`"
    # Not a warning: fairness may be on, and nobody could make the warning go away.
    found = f"cannot be told from here; {decides}, `metadata.tenant` and labels order nothing"
    return Check(name=FAIRNESS, state="ok", found=found)


async def clocks(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """How far the clock of this host is from those of the database and of the server."""
    apart: dict[str, float] = {}
    if "postgres" in settings.store_url and not is_new(settings):
        async with stores_of(settings) as stores:
            apart |= named(STORE, await store_ahead(stores.database))
    with suppress(ServiceUnavailable):
        own, client = await own_server(settings, connect)
        apart |= named(SERVER, await server_ahead(client, loops_queue(own), now=utc_now))
    yield compared(apart)


def compared(apart: Mapping[str, float]) -> Check:
    """The finding on measured differences between clocks."""
    wrong = differences(apart, above_s=APART_S)
    if wrong:
        return Check(
            name=CLOCKS,
            state="warning",
            found=", ".join(wrong),
            cure=CURE,
        )
    if not apart:
        found = "nothing to compare with: no database or server of another host was asked"
        return Check(name=CLOCKS, state="ok", found=found)
    names = " and ".join(apart)
    found = f"that of this host goes with {names}, to {APART_S:g} s"
    return Check(name=CLOCKS, state="ok", found=found)
