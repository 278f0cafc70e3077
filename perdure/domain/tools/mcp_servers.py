"""MCP servers: how a task asks for one, and what is pinned of it when the run opens.

A task names servers; the worker's own settings decide which of them exist and how they are reached.
What a server says about its tools (read-only, idempotent) is never believed: the operator says it.
"""

import hashlib
import json
from typing import Self

from pydantic import Field, JsonValue, model_validator

from perdure.domain.foundation.base import FrozenModel

PREFIX = "mcp."
NAME = r"^[a-z0-9][a-z0-9_-]{0,31}$"
WORKSPACE_FOLDER = "workspace"


class ServerSpec(FrozenModel):
    """One server of `tools.mcp`; a bare name stands for `{name: NAME}`.

    Without `command` and `url` it is the server that the worker's settings have under this name.
    With them it must be the same one. `env` and the values of `headers_from` are names of the
    worker's environment variables, never their content. `allow` and `deny` pick tools by the
    server's own names, which may end in `*`.
    """

    name: str = Field(pattern=NAME)
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    env: tuple[str, ...] | None = None
    cwd: str | None = None
    url: str | None = None
    headers_from: dict[str, str] | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.url is not None and (self.command or self.env or self.cwd):
            raise ValueError("`url` stands alone: `command`, `env` and `cwd` are for local servers")
        if self.headers_from and self.url is None and self.command is not None:
            raise ValueError("`headers_from` is for servers with a `url`")
        return self

    @property
    def prefix(self) -> str:
        """What the names of its tools begin with."""
        return f"{PREFIX}{self.name}."


class PinnedServerTool(FrozenModel):
    """One tool of a server as it was when the run opened: its own name, and what it looked like."""

    name: str
    digest: str


class PinnedServer(FrozenModel):
    """A server as a run may use it; `tools` by the full name that the model uses."""

    spec: ServerSpec
    tools: dict[str, PinnedServerTool] = {}


def appearance(name: str, description: str, parameters: dict[str, JsonValue]) -> str:
    """A digest of what a model is told about a tool; another one means that the tool changed."""
    # Open runs keep these digests: in another form, every tool would seem to have changed.
    told = json.dumps([name, description, parameters], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(told.encode()).hexdigest()[:32]
