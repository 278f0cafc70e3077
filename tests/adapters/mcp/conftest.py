"""A real MCP server in a process of its own, and a short way to call its tools."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from perdure.adapters.mcp.server_config import AllowedServers
from perdure.adapters.mcp.server_tools import McpServers
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation
from perdure.domain.tools.mcp_servers import ServerSpec

SERVER = str(Path(__file__).parents[2] / "support" / "probe_server.py")
VARIABLES = {"PROBE_TOKEN": "s3cret", "PROBE_HEADER": "for you"}


class Probe:
    """The probe server as one worker knows it."""

    def __init__(self, state: Path, root: Path, stack: AsyncExitStack):
        self.state = state
        self.root = root
        self._stack = stack

    def command(self, *more):
        return [sys.executable, "-P", SERVER, str(self.state), *more]

    def servers(self, **entry):
        """The servers of a worker whose operator allows this one."""
        if "url" not in entry:
            entry.setdefault("command", self.command())
        book = AllowedServers.model_validate({"servers": {"probe": entry}})
        made = McpServers(book, secret=VARIABLES.get)
        self._stack.push_async_callback(made.aclose)
        return made

    async def pinned(self, servers, spec="probe", **grant):
        """A grant for what the server offers now."""
        found = await servers.pin([ServerSpec.model_validate(spec)], root=str(self.root))
        names = tuple(fact.name for fact in found.facts)
        return ToolGrant.model_validate(
            {
                "root": str(self.root),
                "level": "full",
                "writable": True,
                "allowed": names,
                "servers": found.servers,
                **grant,
            }
        )

    @staticmethod
    async def call(servers, grant, tool, timeout_s=None, **arguments):
        return await servers.call(
            ToolInvocation(
                run="r",
                call_id="c",
                idempotency_key="k",
                name=f"mcp.probe.{tool}",
                arguments=arguments,
                timeout_s=timeout_s,
            ),
            grant,
        )


@pytest.fixture
async def probe(tmp_path):
    state, root = tmp_path / "state", tmp_path / "root"
    state.mkdir()
    root.mkdir()
    async with AsyncExitStack() as stack:
        yield Probe(state, root, stack)
