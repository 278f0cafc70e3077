"""An MCP server with tools of every kind, for tests: over its standard streams, or over HTTP.

`python probe_server.py STATE` or `python probe_server.py STATE --http PORT`. The folder STATE says
how it behaves: a file `changed` gives a tool another schema, `gone` takes one away.
"""

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

STATE = Path(sys.argv[1])


class Weather(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


def weather(city: str) -> Weather:
    """The weather of a city."""
    return Weather(city=city, degrees=21)


def where() -> str:
    """The folder and one variable of this process."""
    return f"{Path.cwd()} {os.environ.get('PROBE_TOKEN', 'no token')} {os.environ.get('LEAK', '-')}"


def pid() -> int:
    """The process id."""
    return os.getpid()


def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def shout_more(text: str, times: int) -> str:
    """Say it loudly, several times."""
    return text.upper() * times


def many(count: int) -> str:
    """As many characters."""
    return "x" * count


def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


def die() -> str:
    """End the process in the middle of the call."""
    (STATE / "died").touch()
    os._exit(1)


async def wait(seconds: float) -> str:
    """Wait, and note when it was told to stop."""
    import anyio

    (STATE / "waiting").touch()
    try:
        await anyio.sleep(seconds)
    except BaseException:
        (STATE / "cancelled").touch()
        raise
    return "waited"


def album() -> CallToolResult:
    """Contents of every kind."""
    return CallToolResult(
        content=[
            TextContent(text="look:"),
            ImageContent(data="AAAA", mime_type="image/png"),
            ResourceLink(name="report", uri="file:///report.md", description="the report"),
            EmbeddedResource(resource=TextResourceContents(uri="memo://1", text="remember")),
            EmbeddedResource(
                resource=BlobResourceContents(uri="memo://2", blob="AAAA", mime_type="a/b")
            ),
        ],
        structured_content={"pages": 3},
    )


def header(context: Context) -> str:
    """The header that the client sent."""
    headers = context.headers or {}
    return headers.get("x-probe", "none")


def paint(context: Context) -> InputRequiredResult | str:
    """Ask a person in the middle of the call."""
    answer = (context.input_responses or {}).get("colour")
    if isinstance(answer, ElicitResult):
        return f"the person: {answer.action}"
    form = {"type": "object", "properties": {"colour": {"type": "string"}}}
    asked = ElicitRequestFormParams(message="Which colour?", requested_schema=form)
    return InputRequiredResult(input_requests={"colour": ElicitRequest(params=asked)})


def server() -> MCPServer:
    """The server in the state of its folder."""
    made = MCPServer("probe")
    for tool in (weather, where, pid, many, fail, die, wait, album, header, paint):
        made.add_tool(tool)
    if not (STATE / "gone").exists():
        made.add_tool(shout_more if (STATE / "changed").exists() else shout, name="shout")
    return made


if __name__ == "__main__":
    if "--slow" in sys.argv:
        time.sleep(600)
    if "--http" in sys.argv:
        server().run("streamable-http", host="127.0.0.1", port=int(sys.argv[-1]))
    else:
        server().run("stdio")
