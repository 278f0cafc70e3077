"""What is particular to Temporal Cloud: its endpoints, its names of namespaces, its commands."""

import re
from collections.abc import Iterable
from shlex import quote

from perdure.domain.foundation.names import SEARCH_ATTRIBUTES, attributes_command

_HOSTS = (".tmprl.cloud", ".api.temporal.io")
_FULL_NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.[a-z0-9]+")


def is_cloud_address(address: str) -> bool:
    """Whether a HOST:PORT is an endpoint of Temporal Cloud."""
    return address.rpartition(":")[0].lower().rstrip(".").endswith(_HOSTS)


def full_name_hint(namespace: str, address: str) -> str:
    """A sentence for a namespace whose account is missing in its name; empty if it has one."""
    if not is_cloud_address(address) or _FULL_NAME.fullmatch(namespace):
        return ""
    return f" In Temporal Cloud it is the full name with the account: {namespace}.ACCOUNT."


def adding_commands(namespace: str, names: Iterable[str] = SEARCH_ATTRIBUTES) -> str:
    """The commands that add search attributes: of Temporal Cloud, and of other servers."""
    missing = list(names)
    words = " ".join(f"--search-attribute {name}={SEARCH_ATTRIBUTES[name]}" for name in missing)
    return (
        f"`{attributes_command(namespace, missing)}`; in Temporal Cloud "
        f"`tcld namespace search-attributes add --namespace {quote(namespace)} {words}`"
    )
