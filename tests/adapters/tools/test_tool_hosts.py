"""Several sources of tools behind one host: who answers, and that nobody shadows our own."""

from perdure.adapters.tools.host import LocalToolHost, ToolHosts
from perdure.domain.tools.definitions import Rehearsal, ToolGrant, ToolInvocation, ToolOutput
from perdure.extending.tool_decorator import tool


@tool(name="own.say", aliases=("say",))
def say() -> str:
    """Say who runs."""
    return "our own"


class Claiming:
    """A source that claims every name that the grant lists as generated."""

    def __init__(self):
        self.called = []

    def serves(self, name, grant):
        return name in grant.generated

    async def call(self, envelope, grant):
        self.called.append(envelope.name)
        return ToolOutput(outcome="ok", text="the source")

    async def rehearse(self, envelope, grant):
        return Rehearsal()


def envelope(name):
    return ToolInvocation(run="r", call_id="c", idempotency_key="k", name=name, arguments={})


def granted(*generated):
    return ToolGrant(root="/", allowed=("own.say",), generated=dict.fromkeys(generated, "hash"))


async def test_a_source_runs_what_the_grant_says_is_its_own():
    source = Claiming()
    hosts = ToolHosts(LocalToolHost((say,)), (source,))
    given = await hosts.call(envelope("made.count"), granted("made.count"))
    assert (given.text, source.called) == ("the source", ["made.count"])


async def test_no_source_takes_the_place_of_our_own_tools_or_their_aliases():
    source = Claiming()
    hosts = ToolHosts(LocalToolHost((say,)), (source,))
    for name in ("own.say", "say"):
        assert (await hosts.call(envelope(name), granted(name))).text == "our own"
    assert source.called == []


async def test_a_name_that_nobody_serves_is_an_error_that_says_what_there_is():
    hosts = ToolHosts(LocalToolHost((say,)), (Claiming(),))
    given = await hosts.call(envelope("mcp.git.log"), granted())
    assert (given.outcome, given.code) == ("error", "unknown_tool")
    assert "own.say" in given.text


async def test_the_catalog_is_what_every_run_may_be_offered():
    hosts = ToolHosts(LocalToolHost((say,)), (Claiming(),))
    assert [fact.name for fact in await hosts.catalog()] == ["own.say"]
