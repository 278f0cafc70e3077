"""Arguments of a call: patterns mean what they mean to pydantic, and end on every text."""

from typing import Annotated

import pytest
from pydantic import Field, JsonValue

from perdure.adapters.tools.host import LocalToolHost
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation, ToolOutput
from perdure.extending.tool_decorator import tool

Key = Annotated[str, Field(pattern=r"^x-\p{Ll}+$")]


@tool(name="t.greet")
def greet(
    name: Annotated[str, Field(pattern=r"^(\p{L}+ ?)+$")] = "Ann",
    code: Annotated[str, Field(pattern=r"^(a+)+$")] = "a",
    headers: dict[Key, int] | None = None,
) -> str:
    """Greet a person."""
    return f"{name} {code} {headers}"


async def _call(**arguments: JsonValue) -> ToolOutput:
    envelope = ToolInvocation(
        run="r", call_id="c", idempotency_key="k", name="t.greet", arguments=arguments
    )
    grant = ToolGrant(root="/", level="full", writable=True, allowed=("t.greet",))
    return await LocalToolHost([greet]).call(envelope, grant)


@pytest.mark.parametrize(
    ("arguments", "outcome", "said"),
    [
        pytest.param({"name": "Zoë Ångström"}, "ok", "Zoë Ångström", id="letters"),
        pytest.param({"name": "R2"}, "error", "name: found", id="no letters"),
        pytest.param({"code": "a" * 60 + "!"}, "error", "code: found", id="backtracking"),
        pytest.param({"headers": {"x-é": 1}}, "ok", "x-é", id="a key"),
        pytest.param({"headers": {"y": 1}}, "error", "headers", id="no such key"),
        pytest.param({"headers": {"x-a": "one"}}, "error", "headers", id="value of a key"),
        pytest.param({"surname": "x"}, "error", "surname", id="no such argument"),
    ],
)
async def test_patterns_are_those_of_the_tools_author(
    arguments: dict[str, JsonValue], outcome: str, said: str
) -> None:
    output = await _call(**arguments)
    assert output.outcome == outcome
    assert said in output.text
    assert output.code == ("" if outcome == "ok" else "invalid_arguments")
