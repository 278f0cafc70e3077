"""The checks of `doctor` that look at the installation's own store, its disk and its API tokens."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.maintenance import try_writing
from perdure.adapters.stores.open_stores import DATABASE_FILE, Stores, open_stores
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.foundation.errors import PerdureError, StoreAway
from perdure.interfaces.services import Check
from perdure.local_services.service_commands import has_api

STORES = "stores"
LOW_DISK_BYTES = 1024**3
WEEK = timedelta(days=7)
WAITING = "Runs wait for it and lose nothing; nothing has to be restarted when it is back."


def disk(settings: Settings) -> Check:
    """Whether the disk of the home folder has room."""
    place = next(folder for folder in (settings.home, *settings.home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / 1024**3:.1f} GiB free at {place}"
    if free < LOW_DISK_BYTES:
        cure = "Make room, or run `perdure gc`."
        return Check(name="disk", state="warning", found=found, cure=cure)
    return Check(name="disk", state="ok", found=found)


def is_new(settings: Settings) -> bool:
    """Whether nothing was ever kept here."""
    return settings.database_url is None and not (settings.home / DATABASE_FILE).exists()


async def stores(settings: Settings) -> Check:
    """Whether the store can be read and written, as every step of a run must."""
    if is_new(settings):
        return Check(name=STORES, state="ok", found=f"none yet in {settings.home}")
    try:
        async with _opened(settings) as opened:
            runs = await opened.records.find_runs(limit=1)
            await try_writing(opened, settings.home)
    except StoreAway as error:
        return Check(
            name=STORES, state="failed", found=error.message, cure=f"{error.cure} {WAITING}"
        )
    except PerdureError as error:
        return Check(name=STORES, state="failed", found=error.message, cure=error.cure)
    kind = "PostgreSQL" if "postgres" in settings.store_url else "SQLite"
    told = f"newest run {runs[0].id}" if runs else "no runs yet"
    return Check(name=STORES, state="ok", found=f"{kind}, can be written, {told}")


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[Stores]:
    keys = encryption_keys(settings)
    opened = await open_stores(settings.home, settings.database_url, encryption_keys=keys)
    try:
        yield opened
    finally:
        await opened.close()


async def api(settings: Settings) -> Check:
    """Whether the REST API is installed, and who could use it."""
    if not has_api():
        return Check(
            name="rest api",
            state="warning",
            found="not installed",
            cure="Install `perdure[api]` to start and follow runs over HTTP.",
        )
    if settings.api == "off":
        return Check(name="rest api", state="ok", found="installed, switched off (PERDURE_API)")
    if is_new(settings):
        return _without_token("installed")
    try:
        async with _opened(settings) as opened:
            tokens = await opened.access.tokens()
    except PerdureError as error:
        return Check(name="rest api", state="failed", found=error.message, cure=error.cure)
    now = utc_now()
    usable = sum(token.usable(now) for token in tokens)
    if not usable:
        return _without_token("installed")
    soon = [token.id for token in tokens if token.usable(now) and not token.usable(now + WEEK)]
    if soon:
        return Check(
            name="rest api",
            state="warning",
            found=f"installed, {usable} usable tokens; within a week expires {', '.join(soon[:5])}",
            cure=f"Renew it: perdure api token rotate {soon[0]}",
        )
    return Check(name="rest api", state="ok", found=f"installed, {usable} usable tokens")


def _without_token(installed: str) -> Check:
    return Check(
        name="rest api",
        state="ok",
        found=f"{installed}, no token yet, so nobody is let in",
        cure="Make one: perdure api token create NAME --scope operate",
    )
