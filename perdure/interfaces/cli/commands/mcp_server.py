"""The MCP server: other agents start and follow loops through it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.interfaces.cli.commands.loops import loops_over
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.views.layout import line
from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.services import Services

MCP_PORT = 8238


async def mcp(
    *, http: bool = False, port: int = MCP_PORT, workspace: Path | None = None, session: Given
) -> None:
    """Let other agents start and follow loops over the Model Context Protocol.

    Args:
        http: Serve over HTTP on this machine, with a token from `perdure api token`. Default:
            standard input and output, as agents start it.
        port: With --http: port to listen on; 0 takes a free one.
        workspace: The folder that loops work on, in copies. Default: empty folders.
    """
    try:
        # The SDK is an optional extra; imported here, so that other commands work without it.
        from perdure.interfaces.mcp.handler import McpSite
        from perdure.interfaces.mcp.http_server import serve_http, serve_stdio
    except ImportError as error:
        raise RuntimeUnavailable(
            f"The MCP server is not installed ({error}).",
            cure="Install it with `pip install 'perdure[mcp]'`.",
        ) from error

    context = session.context
    folder = None if workspace is None else str((context.folder / workspace).absolute())

    # Notes go to standard error: standard output belongs to the protocol.
    def opened(start: bool) -> AbstractAsyncContextManager[Services]:
        return context.connect(start=start, on_progress=session.output.note)

    def loops_of(services: Services, by: str) -> LoopService:
        return loops_over(session, services, by=by, workspace=folder)

    site = McpSite(
        opened=opened,
        loops_of=loops_of,
        user=context.user,
        now=context.now,
        version=context.version,
        tokens=http,
        rate_per_minute=context.rate_per_minute,
        home=str(context.home),
    )
    if not http:
        await serve_stdio(site)
        return

    def tell(url: str) -> None:
        session.output.show(line(f"MCP server: {url}"), {"type": "mcp", "url": url})

    await serve_http(site, port=port, on_ready=tell)
