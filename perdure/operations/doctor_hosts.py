"""The check of `doctor` on this host among several: its working folders, and who serves them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.workspaces.local import HOST_FILE, NOTE, WORK_FOLDER
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.foundation.names import host_probe_queue, host_queue
from perdure.gateway.worker_probe import backlog
from perdure.interfaces.app_context import Connect
from perdure.interfaces.formatting import plural
from perdure.interfaces.services import Check
from perdure.operations.doctor_checks import own_server

HOST = "host"


async def host(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether the workers of this host, and of no other machine, serve its working folders."""
    if settings.database_url is None:
        found = "the only one: SQLite serves one host"
        yield Check(name=HOST, state="ok", found=found)
        return
    work = settings.home / WORK_FOLDER
    if not (work / HOST_FILE).exists():
        yield Check(name=HOST, state="ok", found=f"no worker has run with {settings.home}")
        return
    id = (work / HOST_FILE).read_text(encoding="ascii")
    folders = await asyncio.to_thread(_folders, work)
    with suppress(ServiceUnavailable):  # another check reports an absent server
        own, client = await own_server(settings, connect)
        queue = host_probe_queue(host_queue(own, id))
        pollers = (await backlog(client, queue, workflows=False, now=utc_now())).pollers
        # The SDK names a client by its process and its machine: `123@machine`.
        yield _served(id, folders, {identity.partition("@")[2] for identity in pollers})


def _folders(work: Path) -> int:
    return len(list(work.glob(f"*/{NOTE}")))


def _served(id: str, folders: int, machines: set[str]) -> Check:
    holds = f"{id} has {plural(folders, 'working folder')}"
    if not machines and folders:
        return Check(
            name=HOST,
            state="warning",
            found=f"{holds}, and no worker serves them",
            cure="Start one with `perdure worker`; meanwhile their runs go on at other hosts.",
        )
    if len(machines) > 1:
        return Check(
            name=HOST,
            state="warning",
            found=f"{holds}, served by {len(machines)} machines ({', '.join(sorted(machines))})",
            cure="That is right where they share PERDURE_HOME over a network. If it was copied, "
            f"remove {WORK_FOLDER}/{HOST_FILE} from the copy, and start its worker again.",
        )
    return Check(name=HOST, state="ok", found=holds)
