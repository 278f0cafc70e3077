"""The peers: which there are, which of them are built here, and in which version."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

PEERS_FOLDER = Path(__file__).parent / "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An agent framework with a Temporal plugin.

    Args:
        name: of its folder.
        title: as people know it.
        packages: whose versions are reported.
        model_step: the activity type that begins a turn.
        tool_step: the activity type of a tool call.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    model_step: str
    tool_step: str

    @property
    def folder(self) -> Path:
        """Its lock, its worker and its environment."""
        return PEERS_FOLDER / self.name

    @property
    def python(self) -> Path:
        """The interpreter of its environment; there is none before `make bench-peers`."""
        return self.folder / ".venv" / "bin" / "python"

    def versions(self) -> str:
        """The versions that its environment holds."""
        path = [str(one) for one in self.folder.glob(".venv/lib/python*/site-packages")]
        found = {one.metadata["Name"]: one.version for one in distributions(path=path)}
        return ", ".join(f"{name} {found.get(name, '?')}" for name in self.packages)


PEERS = (
    Peer(
        name="langgraph",
        title="LangGraph",
        packages=("temporalio-langgraph", "langgraph", "temporalio"),
        model_step="pages.model",
        tool_step="pages.tool",
    ),
    Peer(
        name="openai_agents",
        title="OpenAI Agents",
        packages=("temporalio-openai-agents", "openai-agents", "temporalio"),
        model_step="invoke_model_activity",
        tool_step="read_page",
    ),
    Peer(
        name="pydantic_ai",
        title="pydantic-ai",
        packages=("pydantic-ai-slim", "temporalio"),
        model_step="agent__reader__model_request",
        tool_step="agent__reader__toolset__<agent>__call_tool",
    ),
)


def built() -> Iterator[Peer]:
    """Those whose environment was made."""
    return (peer for peer in PEERS if peer.python.exists())
