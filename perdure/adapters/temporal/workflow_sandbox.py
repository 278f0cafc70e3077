"""The SDK's workflow sandbox, without what it does again for each value that it hands over.

The SDK compiles a line of source for every activation, and enters the sandbox several times for
every payload, to ask which workflow or activity it belongs to. Both cost more processor time than
what our workflows do in an activation.
"""

from functools import lru_cache
from types import CodeType
from typing import cast

from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker._command_aware_visitor import CommandInfo
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox._in_sandbox import InSandbox
from temporalio.worker.workflow_sandbox._runner import _Instance  # pyright: ignore[reportPrivateUsage]

INSIDE = "__temporal_in_sandbox"
LINES_KEPT = 64  # two for each workflow type, and one of activations


class QuickSandbox(SandboxedWorkflowRunner):
    """Runs workflows in the SDK's sandbox, with all of its restrictions."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """An instance whose code is compiled once, and which is asked for contexts directly."""
        return _QuickInstance(det, self.runner_class, self.restrictions)


class _QuickInstance(_Instance):
    def _run_code(self, code: str, **extra_globals: object) -> None:
        # `exec` takes what was compiled as it takes source.
        super()._run_code(_compiled(code), **extra_globals)  # pyright: ignore[reportArgumentType]

    def get_serialization_context(
        self, command_info: CommandInfo | None
    ) -> SerializationContext | None:
        # It only looks into the tables of the instance: none of the workflow's code runs.
        return self._inside.get_serialization_context(command_info)

    def get_external_store_context(
        self, command_info: CommandInfo | None
    ) -> StorageDriverStoreContext:
        return self._inside.get_external_store_context(command_info)

    @property
    def _inside(self) -> InSandbox:
        return cast(InSandbox, self.globals_and_locals[INSIDE])


@lru_cache(LINES_KEPT)
def _compiled(code: str) -> CodeType:
    return compile(code, "<string>", "exec")
