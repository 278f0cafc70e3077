"""Stores in memory, as far as commands look at them."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from perdure.domain.foundation.errors import NotFound
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import Message, user_message


@dataclass
class MemoryBlobs:
    """Texts by address, and what is none."""

    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    async def put(self, data: bytes) -> str:
        address = f"sha256:{len(self.texts) + 900:064x}"
        self.texts[address] = data.decode()
        return address

    async def put_text(self, text: str) -> BlobRef:
        return BlobRef(hash=await self.put(text.encode()))

    async def get(self, address: str) -> bytes:
        found = self.files.get(address)
        return (await self.get_text(address)).encode() if found is None else found

    async def get_text(self, address: str) -> str:
        if address not in self.texts:
            raise NotFound(f"There is no blob {address}.")
        return self.texts[address]

    async def exists(self, address: str) -> bool:
        return address in self.texts

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        raise AssertionError("no command deletes blobs itself")

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        for address, text in self.texts.items():
            yield address, len(text), datetime.now(UTC)


class MemoryTranscripts:
    """One message per transcript, naming its head."""

    async def load(self, head: str) -> tuple[Message, ...]:
        return (user_message(f"transcript {head[-3:]}"),)


@dataclass
class MemoryWorkspaces:
    """Notes what is applied where."""

    applied: list[tuple[str, str, str]] = field(default_factory=list)

    async def base(self, *, run: str) -> BlobRef:
        return BlobRef(hash="sha256:base")

    async def apply(self, *, base: str, tree: str, target: str) -> tuple[str, ...]:
        self.applied.append((base, tree, target))
        return ("README.md",)
