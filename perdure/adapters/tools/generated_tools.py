"""Tools that were made at run time: found by the hash that the run was granted, never by name.

The code runs in the sandbox, in no process of Perdure's; before each call it is hashed again, so
that what runs is byte for byte what was validated.
"""

import json
from collections.abc import Mapping

from perdure.adapters.tools.arguments import check
from perdure.domain.foundation.errors import InvalidInput, PerdureError, ToolFailure
from perdure.domain.generated_tools.draft import ToolDraft
from perdure.domain.generated_tools.dry_run import Crashed, Raised, Returned, ToolSandbox
from perdure.domain.generated_tools.record import GeneratedTool, MadeToolStore, may_use
from perdure.domain.ports import BlobStore
from perdure.domain.tools.definitions import (
    Rehearsal,
    ToolDefinition,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
)


class MadeTools:
    """A source of tools for `ToolHosts`."""

    def __init__(self, *, store: MadeToolStore, blobs: BlobStore, sandbox: ToolSandbox) -> None:
        self._store = store
        self._blobs = blobs
        self._sandbox = sandbox

    def serves(self, name: str, grant: ToolGrant) -> bool:
        """Whether the grant pins a made tool of that name."""
        return name in grant.generated

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run the pinned code; failures are outputs."""
        name = envelope.name
        if name not in grant.generated or name not in grant.allowed:
            return _not_granted(name)
        try:
            tool, code = await self._pinned(name, grant.generated[name])
            check(tool.fact, envelope.arguments, made=True)
        except ToolFailure as failure:
            return ToolOutput(outcome="error", text=failure.message, code=failure.reason)
        except PerdureError as error:
            return ToolOutput(outcome="error", text=str(error), code=error.code)
        return await self._run(tool, code, envelope)

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """Whether the pinned code is there and takes these arguments; it is not run."""
        name = envelope.name
        if name not in grant.generated or name not in grant.allowed:
            return Rehearsal(refused=_not_granted(name))
        try:
            tool, _ = await self._pinned(name, grant.generated[name])
            check(tool.fact, envelope.arguments, made=True)
        except ToolFailure as failure:
            told = ToolOutput(outcome="error", text=failure.message, code=failure.reason)
            return Rehearsal(refused=told)
        except PerdureError as error:
            told = ToolOutput(outcome="error", text=str(error), code=error.code)
            return Rehearsal(refused=told)
        return Rehearsal()

    async def facts(self, pinned: Mapping[str, str], *, root: str) -> tuple[ToolDefinition, ...]:
        """What the tools of a run are, pinned; raises `InvalidInput` for what it may not use."""
        found: list[ToolDefinition] = []
        problems: list[str] = []
        for name, hash in sorted(pinned.items()):
            tool = await self._store.get(hash)
            if tool is None or tool.name != name:
                problems.append(f"tools.generated: there is no tool {name} of hash {hash[:12]}")
                continue
            refusal = may_use(tool, await self._store.makers(hash), root=root)
            problems += [] if refusal is None else [f"tools.generated: {refusal}"]
            found.append(tool.fact)
        if problems:
            raise InvalidInput(
                "; ".join(problems), cure="`perdure tools list` shows what is there."
            )
        return tuple(found)

    async def _pinned(self, name: str, hash: str) -> tuple[GeneratedTool, str]:
        """The tool of that hash with its code, verified against it."""
        tool = await self._store.get(hash)
        if tool is None or tool.name != name:
            raise ToolFailure(
                f"{name} ({hash[:12]}) is not in this worker's store; use another tool.",
                reason="not_found",
            )
        if tool.state == "rejected":
            raise ToolFailure(
                f"{name} was rejected by {tool.decided_by}; use another tool.", reason="rejected"
            )
        code = await self._blobs.get_text(tool.code)
        if ToolDraft(name=name, code=code, parameters=tool.parameters).hash != hash:
            raise ToolFailure(
                f"{name} is not the code that was validated ({hash[:12]}); it was not run.",
                reason="hash_mismatch",
            )
        return tool, code

    async def _run(self, tool: GeneratedTool, code: str, envelope: ToolInvocation) -> ToolOutput:
        seconds = envelope.timeout_s or tool.fact.timeout_s
        trial = await self._sandbox.run(code, tool.handler, envelope.arguments, seconds=seconds)
        match trial:
            case Returned(value=value):
                text = json.dumps(value, ensure_ascii=False, indent=2)
                return ToolOutput(
                    outcome="ok", text=text.replace("\0", "\N{REPLACEMENT CHARACTER}")
                )
            case Raised(refusal=True):
                return ToolOutput(
                    outcome="error", text=f"{tool.name} refused: {trial.words}", code="refused"
                )
            case Raised():
                return ToolOutput(
                    outcome="error", text=f"{tool.name} failed with {trial.words}", code="crashed"
                )
            case Crashed(why=why):
                return ToolOutput(outcome="error", text=f"{tool.name}: {why}", code="no_result")


def _not_granted(name: str) -> ToolOutput:
    return ToolOutput(outcome="denied", text=f"{name} is not granted to this run.", code="denied")
