"""Generated tools: found by the hash that the run's grant pins, never by name alone.

The code runs in the sandbox, outside of the worker's process. It is hashed before each call, so
that exactly the validated code runs.
"""

import json
from collections.abc import Mapping

from perdure.adapters.tools.arguments import check
from perdure.domain.foundation.errors import InvalidInput, PerdureError, ToolFailure
from perdure.domain.generated_tools.draft import ToolDraft
from perdure.domain.generated_tools.dry_run import Crashed, Raised, Returned, ToolSandbox
from perdure.domain.generated_tools.record import GeneratedTool, MadeToolStore, use_refusal
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
        """Whether the grant pins a generated tool of that name."""
        return name in grant.generated

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run the pinned code; failures are outputs."""
        found = await self._checked(envelope, grant)
        return found if isinstance(found, ToolOutput) else await self._run(*found, envelope)

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """Whether the pinned code exists and accepts these arguments, without running it."""
        found = await self._checked(envelope, grant)
        return Rehearsal(refused=found) if isinstance(found, ToolOutput) else Rehearsal()

    async def _checked(
        self, envelope: ToolInvocation, grant: ToolGrant
    ) -> tuple[GeneratedTool, str] | ToolOutput:
        """The pinned tool and its code if it may be called like this, or the refusal."""
        name = envelope.name
        if name not in grant.generated or name not in grant.allowed:
            text = f"{name} is not granted to this run."
            return ToolOutput(outcome="denied", text=text, code="denied")
        try:
            tool, code = await self._pinned(name, grant.generated[name])
            check(tool.fact, envelope.arguments, made=True)
        except ToolFailure as failure:
            return ToolOutput(outcome="error", text=failure.message, code=failure.reason)
        except PerdureError as error:
            return ToolOutput(outcome="error", text=str(error), code=error.code)
        return tool, code

    async def facts(self, pinned: Mapping[str, str], *, root: str) -> tuple[ToolDefinition, ...]:
        """The definitions of pinned tools; raises `InvalidInput` if the run may not use one."""
        found: list[ToolDefinition] = []
        problems: list[str] = []
        for name, hash in sorted(pinned.items()):
            tool = await self._store.get(hash)
            if tool is None or tool.name != name:
                problems.append(f"tools.generated: there is no tool {name} of hash {hash[:12]}")
                continue
            refusal = use_refusal(tool, await self._store.makers(hash), root=root)
            problems += [] if refusal is None else [f"tools.generated: {refusal}"]
            found.append(tool.fact)
        if problems:
            raise InvalidInput(
                "; ".join(problems), cure="`perdure tools list` shows what is there."
            )
        return tuple(found)

    async def _pinned(self, name: str, hash: str) -> tuple[GeneratedTool, str]:
        """The tool of that hash and its code, which is verified against the hash."""
        tool = await self._store.get(hash)
        if tool is None or tool.name != name:
            raise ToolFailure(
                f"{name} ({hash[:12]}) is not in this worker's store; use another tool.",
                reason="not_found",
            )
        # Asked at each call: a person may reject a tool while runs that pinned it are open.
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
                # PostgreSQL cannot store NUL.
                return ToolOutput(
                    outcome="ok", text=text.replace("\0", "\N{REPLACEMENT CHARACTER}")
                )
            case Raised(is_refusal=True):
                return ToolOutput(
                    outcome="error", text=f"{tool.name} refused: {trial.words}", code="refused"
                )
            case Raised():
                return ToolOutput(
                    outcome="error", text=f"{tool.name} failed with {trial.words}", code="crashed"
                )
            case Crashed(why=why):
                return ToolOutput(outcome="error", text=f"{tool.name}: {why}", code="no_result")
