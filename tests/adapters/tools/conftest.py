"""A tool host over a folder, and a short way to call it."""

import pytest

from perdure.adapters.tools.builtin import builtin_tools
from perdure.adapters.tools.host import LocalToolHost
from perdure.domain.foundation.errors import NotFound
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation


class Blobs:
    """Just enough of a blob store for `artifact.read`."""

    def __init__(self):
        self.content = {}

    async def get(self, address):
        if address not in self.content:
            raise NotFound(f"no blob {address}")
        return self.content[address]


@pytest.fixture
def blobs():
    return Blobs()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def call(root, blobs):
    """Call a built-in tool with everything granted: `await call("fs.read", path="a")`."""
    tools = builtin_tools(blobs)
    host = LocalToolHost(tools)
    names = tuple(tool.fact.name for tool in tools)
    grant = ToolGrant(root=str(root), writable=True, level="full", allowed=names)

    async def run(name, **arguments):
        envelope = ToolInvocation(
            run="r", call_id="c", idempotency_key="k", name=name, arguments=arguments
        )
        return await host.call(envelope, grant)

    return run
