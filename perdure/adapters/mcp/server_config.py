"""The operator's list of MCP servers (`mcp.yaml`), from which a task can pick, but not add to it.

What a server claims about its own tools is not trusted: the operator states their access, whether
they are idempotent and whether they need approval.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.ports import PinnedServers
from perdure.domain.tools.definitions import DEFAULT_TIMEOUT_S, AccessClass
from perdure.domain.tools.mcp_servers import NAME, ServerSpec
from perdure.strict_yaml import parse
from perdure.text_files import read_text

BOOK_FILE = "mcp.yaml"
ServerAccess = Literal["read", "write", "execute", "network"]
ServerName = Annotated[str, Field(pattern=NAME)]
Reference = Annotated[str, Field(pattern=r"^(env|file|command):.")]


class ToolPolicy(FrozenModel):
    """What the operator states of one tool; what is left out is as for its server."""

    access: ServerAccess | None = None
    idempotent: bool | None = None
    approve: bool | None = None
    timeout_s: float | None = Field(default=None, gt=0)


class ServerEntry(FrozenModel):
    """One server: how it is started or reached, and how much its tools are trusted.

    `env` and the values of `headers_from` name environment variables of the worker. A header may
    also be a reference, like the values of `env_from`. `cwd` is an absolute folder, or `workspace`
    for the folder of the run; if it is left out, the server runs in an empty folder.
    """

    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    env: tuple[str, ...] = ()
    env_from: dict[str, Reference] = {}
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^https?://")
    headers_from: dict[str, str] = {}
    access: ServerAccess = "network"
    idempotent: bool = False
    approve: bool = False
    timeout_s: float = Field(default=DEFAULT_TIMEOUT_S, gt=0)
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    tools: dict[str, ToolPolicy] = {}

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` (a local server) or `url` (a remote one)")
        if self.url is not None and (self.env or self.env_from or self.cwd):
            raise ValueError("`env`, `env_from` and `cwd` are for local servers")
        if self.command is not None and self.headers_from:
            raise ValueError("`headers_from` is for servers with a `url`")
        return self

    def rule(self, tool: str) -> ToolPolicy:
        """The full policy of one tool, by the server's own name of it."""
        said = self.tools.get(tool, ToolPolicy())
        return ToolPolicy(
            access=said.access or self.access,
            idempotent=self.idempotent if said.idempotent is None else said.idempotent,
            approve=self.approve if said.approve is None else said.approve,
            timeout_s=said.timeout_s or self.timeout_s,
        )

    @property
    def accesses(self) -> frozenset[ServerAccess]:
        """Every access class that a tool of this server may have."""
        return frozenset(
            {self.access, *(said.access for said in self.tools.values() if said.access)}
        )

    def offers(self, tool: str, spec: ServerSpec) -> bool:
        """Whether both operator and task allow this tool."""
        return all(
            (allow is None or _any(allow, tool)) and not _any(deny, tool)
            for allow, deny in ((self.allow, self.deny), (spec.allow, spec.deny))
        )


class AllowedServers(FrozenModel):
    """The operator's file: `servers:` by name."""

    servers: dict[ServerName, ServerEntry] = {}

    def admitted(self, spec: ServerSpec) -> ServerEntry:
        """The entry of the server that a task names, narrowed to what the task states.

        Raises:
            InvalidInput: the worker has no such server, or has another one under this name.
        """
        entry = self.servers.get(spec.name)
        if entry is None:
            have = ", ".join(sorted(self.servers)) or "none"
            raise InvalidInput(
                f"tools.mcp: this worker allows no MCP server named {spec.name!r}; it has {have}.",
                cure=f"Its operator allows one in {BOOK_FILE} of the worker's home folder.",
            )
        other = [name for name, same in _compared(spec, entry).items() if not same]
        if other:
            raise InvalidInput(
                f"tools.mcp: the worker's server {spec.name!r} is another one: "
                f"{', '.join(other)} differ from what its operator allows.",
                cure=f"Name it alone (`mcp: [{spec.name}]`), or have the entry changed.",
            )
        narrowed: dict[str, object] = {"env": spec.env, "headers_from": spec.headers_from}
        if spec.env is not None:
            kept = {name: said for name, said in entry.env_from.items() if name in spec.env}
            narrowed |= {"env": tuple(set(spec.env) - kept.keys()), "env_from": kept}
        return entry.model_copy(
            update={name: said for name, said in narrowed.items() if said is not None}
        )


class NoServers:
    """The port `ToolServers` of a worker without MCP servers."""

    def accesses(self, asked: Sequence[ServerSpec]) -> frozenset[AccessClass]:
        """Empty if no server is asked for; otherwise raises `InvalidInput`."""
        return frozenset(one for spec in asked for one in AllowedServers().admitted(spec).accesses)

    async def pin(self, asked: Sequence[ServerSpec], *, root: str) -> PinnedServers:
        """Empty if no server is asked for; otherwise raises `InvalidInput`."""
        self.accesses(asked)
        return PinnedServers()


def load_book(path: Path) -> AllowedServers:
    """Read the operator's file; a missing file allows no server.

    Raises:
        InvalidInput: names every problem, with its path, what was found and what is allowed.
    """
    if not path.exists():
        return AllowedServers()
    value = parse(read_text(path), named=f"The list of MCP servers {path}")
    try:
        return AllowedServers.model_validate(value or {})
    except ValidationError as error:
        names = {*AllowedServers.model_fields, *ServerEntry.model_fields, *ToolPolicy.model_fields}
        lines = "".join(f"\n  {problem}" for problem in problems_of(error, value, names=names))
        raise InvalidInput(
            f"The list of MCP servers {path} is wrong:{lines}", cure="\nCorrect the file."
        ) from None


def _compared(spec: ServerSpec, entry: ServerEntry) -> dict[str, bool]:
    """For each field that a task can state, whether it agrees with the operator's entry."""
    headers = spec.headers_from or {}
    return {
        "command": spec.command is None or spec.command == entry.command,
        "url": spec.url is None or spec.url == entry.url,
        "cwd": spec.cwd is None or spec.cwd == entry.cwd,
        # A task may ask for fewer variables and headers than the entry has, but for no others.
        "env": set(spec.env or ()) <= {*entry.env, *entry.env_from},
        "headers_from": headers.items() <= entry.headers_from.items(),
    }


def _any(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
