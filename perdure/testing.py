"""What you need to test a workflow that awaits loops: a server, an installation, played models.

    async with PerdureEnvironment.start() as environment:
        model = await environment.model(ScriptedModel("A first draft.", "A better one."))
        async with Worker(environment.client, task_queue="orders", workflows=[OrderWorkflow]):
            ...

Nothing leaves the machine, nothing is kept, and no key is needed. With `skip_time=True` workflows
do not wait for their timers: a week passes in a second.
"""

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import yaml
from pydantic import JsonValue
from temporalio.client import Client, Plugin, WorkflowHandle
from temporalio.testing import TimeSkipper, WorkflowEnvironment

from perdure.adapters.settings.variables import GivenSettings, Settings
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.ports import ModelClient
from perdure.extending.check_decorator import CustomCheck
from perdure.extending.hook_decorators import Hook
from perdure.extending.tool_decorator import Tool
from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.local_services.service_commands import temporal_binary
from perdure.temporal import PerdurePlugin

__all__ = ["PerdureEnvironment", "ScriptedModel"]
HEARTBEAT_S = 4.0
# Off, unless a server is told; then each workflow has a clock of its own.
MAY_SKIP = ("--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true")


class ScriptedModel:
    """Replies that a model gives, in order.

    Args:
        replies: texts, or entries as a script file has them: `{"text": …}`, `{"tool_calls": …}`,
            `{"error": …}`, with `role` and `times` where they matter.
        settings: further fields of the script, such as `price` or `exhausted`.
    """

    def __init__(self, *replies: str | Mapping[str, JsonValue], **settings: JsonValue) -> None:
        entries: list[JsonValue] = [
            {"text": one} if isinstance(one, str) else dict(one) for one in replies
        ]
        self.script: dict[str, JsonValue] = {**settings, "replies": entries}


@dataclass(frozen=True, slots=True)
class PerdureEnvironment:
    """A Temporal server and an installation of their own, for as long as the block lasts.

    Args:
        client: has the plugin, so workers made with it serve loops. With `skip_time` the workflows
            that it starts, and the runs below them, skip the time in which they only wait.
        plugin: for clients of your own.
        settings: of the installation.
    """

    client: Client
    plugin: PerdurePlugin
    settings: Settings

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        tools: Sequence[Tool[..., object]] = (),
        checks: Sequence[CustomCheck] = (),
        hooks: Sequence[Hook] = (),
        models: Mapping[str, ModelClient] | None = None,
        roles: Mapping[str, str | Path] | None = None,
        definitions: Sequence[Path | Mapping[str, JsonValue]] = (),
        queues: Sequence[str] = (),
        plugins: Sequence[Plugin] = (),
        skip_time: bool = False,
    ) -> AsyncGenerator["PerdureEnvironment"]:
        """Start both; the server is Temporal's own (of `perdure[local]`), in memory.

        Args:
            tools: functions with `@tool` that loops may call.
            checks: functions with `@check` that rubrics may name.
            hooks: functions with `@adapt`, `@on_iteration` or `@on_end` that tasks may name.
            models: clients of models, by name.
            roles: Markdown of roles, or the paths of such files, by name.
            definitions: of loops of roles, as fields or as paths of their files.
            queues: where loops are started, if not on the queues of the workers.
            plugins: further plugins of the client, which come before that of Perdure.
            skip_time: workflows that `client` starts jump over timers, deadlines and the pauses
                between attempts. A gate with a deadline then runs out before a test can answer it;
                leave this out, and call `fast_forward` when it is time.
        """
        server = await WorkflowEnvironment.start_local(
            dev_server_existing_path=str(temporal_binary()), dev_server_extra_args=MAY_SKIP
        )
        with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
            async with server:
                await register_search_attributes(server.client)
                # Not those of the shell, whose database, keys and channels may be real ones.
                settings = GivenSettings.found(
                    {"home": Path(folder), "heartbeat_s": HEARTBEAT_S}, files=False
                )
                plugin = PerdurePlugin(
                    settings,
                    tools=tools,
                    checks=checks,
                    hooks=hooks,
                    models=models,
                    roles=roles,
                    definitions=definitions,
                    queues=queues,
                )
                address = server.client.service_client.config.target_host
                client = await Client.connect(address, plugins=[*plugins, plugin])
                yield cls(TimeSkipper(client).client if skip_time else client, plugin, settings)

    async def fast_forward(self, run: WorkflowHandle[object, object], duration: timedelta) -> None:
        """Let this much time pass for one workflow, at once; it goes on as usual afterwards.

        Args:
            run: of a workflow of yours or of a loop. A loop that is the child of a workflow has a
                clock of its own: take the handle of the loop.
            duration: how far its clock goes forward.
        """
        await TimeSkipper(self.client).fast_forward(run, duration)

    async def model(self, model: ScriptedModel) -> str:
        """Keep a script, and return the name by which tasks use it as a model."""
        stores = await open_stores(self.settings.home, self.settings.secret("database_url"))
        try:
            address = await stores.blobs.put(yaml.safe_dump(model.script).encode())
        finally:
            await stores.close()
        return f"scripted:{address}"
