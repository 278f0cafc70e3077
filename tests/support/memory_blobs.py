"""A blob store in memory that counts what was put."""

import hashlib

from perdure.domain.foundation.errors import NotFound
from perdure.domain.foundation.refs import BlobRef


class MemoryBlobs:
    """Content-addressed bytes in memory; counts how many were put."""

    def __init__(self):
        self.content = {}
        self.puts = 0

    async def put(self, data):
        self.puts += 1
        address = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.content[address] = data
        return address

    async def put_text(self, text):
        return BlobRef(hash=await self.put(text.encode()), bytes=len(text.encode()))

    async def get(self, address):
        if address not in self.content:
            raise NotFound(f"no blob {address}")
        return self.content[address]

    async def get_text(self, address):
        return (await self.get(address)).decode()
