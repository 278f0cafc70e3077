"""The port to what a manager hands over: files of its working copy, and the form of its result."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import JsonValue

from perdure.domain.delegation.completion import FileFact


class Inspector(Protocol):
    """Looks at deliverables; reads, and changes nothing."""

    async def facts(self, root: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        """Each file as it lies below `root`: there, empty, unfinished, broken."""
        ...

    async def texts(self, root: str, paths: Sequence[str]) -> Mapping[str, str]:
        """The texts of those files that are there and are text."""
        ...

    async def misfits(self, text: str, schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """How a text misses a JSON schema; empty when it fits."""
        ...
