"""Salted digests of the settings that steer the services: compares callers without secrets."""

import hashlib
import hmac
import secrets

from perdure.adapters.runtime.state import HomeFiles
from perdure.adapters.settings import PREFIX, Settings

STEERING = (PREFIX, "ANTHROPIC_", "TEMPORAL_")
FILED = "perdure.yaml: "  # a setting of the home's file
# What differs from shell to shell without meaning other services.
IGNORED = frozenset(
    f"{PREFIX}{name}"
    for name in ("HOME", "LOG_FORMAT", "READY_FILE", "MODEL", "MODEL_URL", "IDLE_MINUTES")
)


def digests(files: HomeFiles, settings: Settings) -> dict[str, str]:
    """Name to digest of every variable that a worker of these settings would see."""
    salt = _salt(files)
    environment = settings.for_services()
    named = {
        name: value
        for name, value in environment.items()
        if name.startswith(STEERING) and name not in IGNORED
    }
    of_home = {
        f"{FILED}{name}": str(getattr(settings.layers.home, "values", {}).get(name))
        for name in settings.layers.of_home
    }
    return {
        name: hmac.new(salt, value.encode(), hashlib.sha256).hexdigest()[:16]
        for name, value in sorted((named | of_home).items())
    }


def changed(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Names whose values differ, appeared or went away."""
    return tuple(sorted(gone(before, now) | set(brought(before, now))))


def brought(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Names whose values differ or appeared: what a shell that names them wants to be so.

    The home's file is the same for every shell: what has gone from it counts too.
    """
    named = {name for name, value in now.items() if before.get(name) != value}
    left = {name for name in gone(before, now) if name.startswith(FILED)}
    return tuple(sorted(named | left))


def gone(before: dict[str, str], now: dict[str, str]) -> frozenset[str]:
    """Names that had a value and have none now."""
    return frozenset(before.keys() - now.keys())


def _salt(files: HomeFiles) -> bytes:
    try:
        with files.salt.open("xb") as file:
            file.write(secrets.token_bytes(16))
    except FileExistsError:
        pass
    return files.salt.read_bytes()
