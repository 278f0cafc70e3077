"""Servers that speak OpenAI's chat completions: the entries of PERDURE_PROVIDERS."""

import re
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from perdure.adapters.settings.addresses import Url
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.file_signatures import AttachmentKind
from perdure.domain.llm.requests import Effort

# A server's name is between `compat:` and the model's name.
SERVER_NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,31}$")
ServerName = Annotated[str, StringConstraints(pattern=SERVER_NAME.pattern)]
# A model as tasks name it; `*` matches any characters.
ModelPattern = Annotated[str, StringConstraints(pattern=r"^[^\s?\[\]]{1,100}$")]
CallRate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CompatibleServer(FrozenModel):
    """One entry, by the name that stands behind `compat:`.

    Attributes:
        url: its base URL, up to the version: `http://127.0.0.1:11434/v1`.
        key_variable: the environment variable with its key; none for a server that wants none.
        key: where its key is instead: `env:NAME`, `file:PATH` or `command:PROGRAM …`.
        model: what `compat:NAME` alone means.
        tools: its models can choose tools by themselves.
        judges: they may evaluate.
        small: they do better with short prompts.
        json_schema: it takes a schema of the answer; left out, that is tried.
        streaming: it streams; left out, that is tried.
        free: it costs nothing. Otherwise the price list is asked, by the URL.
        window: tokens of its context.
        max_output: the longest reply in tokens.
        effort: the levels of effort that it takes.
        attachments: what its models can be shown beside text: `image`, `pdf`.
        attachment_factor: how many times the usual bound of tokens they take for it.
    """

    url: Annotated[Url, StringConstraints(pattern=r"^https?://[^\s]+$")]
    key_variable: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = (
        None
    )
    key: Annotated[str, StringConstraints(pattern=r"^(env|file|command):.")] | None = None
    model: str | None = None
    tools: bool = True
    judges: bool = True
    small: bool = False
    json_schema: bool | None = None
    streaming: bool | None = None
    free: bool = False
    window: int | None = Field(default=None, ge=1)
    max_output: int | None = Field(default=None, ge=1)
    effort: tuple[Effort, ...] = ()
    attachments: tuple[AttachmentKind, ...] = ()
    attachment_factor: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.key and self.key_variable:
            raise ValueError("give either `key` or `key_variable`")
        return self

    @property
    def key_reference(self) -> str | None:
        """Where its key is; None for a server that wants none."""
        return self.key or (f"env:{self.key_variable}" if self.key_variable else None)
