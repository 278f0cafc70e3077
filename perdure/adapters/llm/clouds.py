"""Claude at cloud providers, through the clients of the `anthropic` package.

These clients read the standard variables and credential files of their cloud by themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicFoundry
    from anthropic.lib.bedrock import AsyncAnthropicBedrock
    from anthropic.lib.vertex import AsyncAnthropicVertex

    AnyClient = (
        AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicFoundry | AsyncAnthropicVertex
    )


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud that serves Claude.

    Attributes:
        title: its name in messages.
        needs: variables without which no call is possible; any one of each inner tuple is enough.
        credentials: a sentence on where its credentials come from.
    """

    title: str
    needs: tuple[tuple[str, ...], ...]
    credentials: str


CLOUDS: Mapping[str, Cloud] = MappingProxyType(
    {
        "bedrock": Cloud(
            "Amazon Bedrock",
            (),
            "It takes the credentials and region of AWS (AWS_REGION, AWS_PROFILE, the AWS files, "
            "or AWS_BEARER_TOKEN_BEDROCK)",
        ),
        "vertex": Cloud(
            "Vertex AI",
            (("CLOUD_ML_REGION",),),
            "It takes Google's application default credentials, CLOUD_ML_REGION and "
            "ANTHROPIC_VERTEX_PROJECT_ID",
        ),
        "foundry": Cloud(
            "Microsoft Foundry",
            (
                ("ANTHROPIC_FOUNDRY_API_KEY",),
                ("ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"),
            ),
            "It takes ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE",
        ),
    }
)
VARIABLES = frozenset(
    name for cloud in CLOUDS.values() for any_of in cloud.needs for name in any_of
)

MakeClient = Callable[[httpx2.Timeout, httpx2.AsyncClient | None], "AnyClient"]


def lacking_variables(cloud: Cloud, have: frozenset[str]) -> str:
    """What must be set for a cloud; empty if nothing is missing."""
    missing = [any_of[0] for any_of in cloud.needs if have.isdisjoint(any_of)]
    return f"Set {' and '.join(missing)}." if missing else ""


def maker(provider: str) -> MakeClient:
    """A factory of the client of a cloud; the credentials are read when it is called."""
    from anthropic import AsyncAnthropicFoundry
    from anthropic.lib.bedrock import AsyncAnthropicBedrock
    from anthropic.lib.vertex import AsyncAnthropicVertex

    from perdure.adapters.settings.library_secrets import MODELS, followed

    def make(timeout: httpx2.Timeout, http: httpx2.AsyncClient | None) -> "AnyClient":
        secrets = followed(MODELS.get(provider, ()))
        key = secrets.get("AWS_BEARER_TOKEN_BEDROCK")
        match provider:
            case "bedrock":
                # The client refuses a bearer token together with signing keys. Where it reads both
                # from the environment itself, the token wins, so it does here too.
                signing = {} if key else secrets
                return AsyncAnthropicBedrock(
                    api_key=key,
                    aws_access_key=signing.get("AWS_ACCESS_KEY_ID"),
                    aws_secret_key=signing.get("AWS_SECRET_ACCESS_KEY"),
                    aws_session_token=signing.get("AWS_SESSION_TOKEN"),
                    timeout=timeout,
                    max_retries=0,
                    http_client=http,
                )
            case "vertex":
                return AsyncAnthropicVertex(timeout=timeout, max_retries=0, http_client=http)
            case _:
                return AsyncAnthropicFoundry(
                    api_key=secrets.get("ANTHROPIC_FOUNDRY_API_KEY"),
                    timeout=timeout,
                    max_retries=0,
                    http_client=http,
                )

    return make
