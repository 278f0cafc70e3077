"""Salted digests of the settings that steer the services: compares callers without secrets."""

import hashlib
import hmac
import secrets

from perdure.adapters.runtime.state import HomeFiles
from perdure.adapters.settings import PREFIX, Settings, inherited_environment

STEERING = (PREFIX, "ANTHROPIC_", "TEMPORAL_")
# What differs from shell to shell without meaning other services.
IGNORED = frozenset(
    f"{PREFIX}{name}"
    for name in ("HOME", "LOG_FORMAT", "READY_FILE", "MODEL", "MODEL_URL", "IDLE_MINUTES")
)


def digests(files: HomeFiles, settings: Settings) -> dict[str, str]:
    """Name to digest of every variable that a worker of these settings would see."""
    salt = _salt(files)
    environment = inherited_environment() | settings.as_environment()
    return {
        name: hmac.new(salt, value.encode(), hashlib.sha256).hexdigest()[:16]
        for name, value in sorted(environment.items())
        if name.startswith(STEERING) and name not in IGNORED
    }


def changed(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Names whose values differ, appeared or went away."""
    return tuple(sorted(gone(before, now) | set(brought(before, now))))


def brought(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Names whose values differ or appeared: what a shell that names them wants to be so."""
    return tuple(sorted(name for name, value in now.items() if before.get(name) != value))


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
