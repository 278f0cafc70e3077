"""The Python interface: connect, start a run, follow it, steer it.

async with await Client.connect() as client:
result = await client.run("Write a haiku about rust.")
"""

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import TracebackType
from typing import Protocol, Self, cast

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.foundation.errors import NotFound
from perdure.domain.foundation.progress import Standing
from perdure.domain.ports import BlobStore, LiveTexts
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.result import RunResult
from perdure.domain.specs import Spec
from perdure.event_log import get_logger
from perdure.experiment_client import Experiments
from perdure.gateway.types import RunFilter, RunPage
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.opening import Opening, WhileOpen, enter_in_task, not_pickled
from perdure.interfaces.python_arguments import (
    RUN,
    count,
    flags_of,
    made,
    text,
    text_or_none,
    wrong,
)
from perdure.interfaces.services import Services
from perdure.run_handle import RunHandle
from perdure.submission.loading import load, load_data, load_spec, revise, store
from perdure.submission.plain_values import plain_fields
from perdure.submission.task_file import is_readable
from perdure.submission.types import Flags, Submission, Surroundings, as_workers_see
from perdure.text_files import pipes_read_anew

_log = get_logger(__name__)

COMPOSITION = "perdure.composition.client_services"
DEFAULTS_FILE = "perdure.yaml"
Task = Spec | str | PurePath | Mapping[str, object]
SPECIFICATION = "The specification"
TASK = "a specification, its fields, the path of a task file, or a goal in words"


class _Settings(Protocol):
    def load(self, **overrides: object) -> object: ...


class _Compose(Protocol):
    """The functions of the composition root that this interface uses."""

    Settings: _Settings
    SETTING_NAMES: frozenset[str]

    def access_from(self, settings: object) -> object: ...

    def default_model(self, access: object) -> str: ...

    def working_folder(self) -> Path: ...

    def services(
        self,
        settings: object,
        *,
        start: bool,
        on_progress: Callable[[str], None],
        with_worker: bool = False,
    ) -> AbstractAsyncContextManager[Services]: ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Client:
    """A connection to an installation; make it with `connect`.

    It belongs to the process and the event loop that opened it; elsewhere its calls, and those of
    its handles, raise `NotAllowed`. `experiments` starts and reads experiments.
    """

    gateway: RunGateway
    blobs: BlobStore
    live: LiveTexts
    experiments: Experiments
    surroundings: Surroundings
    by: str
    opening: Opening
    resources: AsyncExitStack

    def __repr__(self) -> str:
        return f"Client(by={self.by!r}, folder={str(self.surroundings.folder)!r})"

    __reduce__ = not_pickled

    @classmethod
    async def connect(
        cls,
        *,
        start: bool = True,
        with_worker: bool = False,
        by: str = "python",
        **settings: object,
    ) -> Self:
        """Open the installation that the environment names.

        Args:
            start: start embedded services that do not run yet; where a Temporal server is named,
                nothing is started.
            with_worker: start a worker of this host beside a named server too.
            by: who steers, for audit trails.
            settings: fields of the settings that win over the environment, such as `home`.

        Raises:
            InvalidInput: a setting is wrong.
            ServiceUnavailable: a service cannot be reached or started.
        """
        # Imported by name, so that `import perdure` loads no adapter before somebody connects. Only
        # a protocol can type such a module.
        compose = cast("_Compose", importlib.import_module(COMPOSITION))
        text("by", by)
        folder = compose.working_folder()
        loaded, opening, resources = compose.Settings.load(**settings), Opening(), AsyncExitStack()
        services, close = await enter_in_task(
            compose.services(
                loaded, start=start, on_progress=_log_standing, with_worker=with_worker
            ),
            opening,
        )
        resources.push_async_callback(close)
        # Last in, so first out: calls are refused before their connections are gone.
        resources.callback(opening.end)
        surroundings = Surroundings(
            folder=folder,
            user_defaults=Path(services.endpoints.home) / DEFAULTS_FILE,
            default_model=compose.default_model(compose.access_from(loaded)),
            settings=compose.SETTING_NAMES,
        )
        kept = cast("Services", WhileOpen(services, opening))
        return cls(
            gateway=cast("RunGateway", WhileOpen(services.gateway, opening)),
            blobs=cast("BlobStore", WhileOpen(services.blobs, opening)),
            live=cast("LiveTexts", WhileOpen(services.live(), opening)),
            experiments=Experiments(services=kept, surroundings=surroundings, by=by),
            surroundings=surroundings,
            by=by,
            opening=opening,
            resources=resources,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back connections; runs go on, and nothing more can be asked of this client.

        Raises:
            NotAllowed: another process or event loop opened it, and has to close it.
        """
        self.opening.check_place()
        await self.resources.aclose()

    async def start(
        self,
        task: Task,
        *,
        flags: Flags | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> RunHandle:
        """Start a run.

        Args:
            task: a specification, its fields, the path of a task file, or a goal in words. A
                `Path` is always a file. Fields may hold what Python programs have: numbers and
                arrays of numpy, dates, exact numbers, paths.
            flags: what wins over the task.
            run_id: the id it gets; the same id twice is one run.
            idempotency_key: the same key is one run, whenever it is sent.

        Raises:
            InvalidInput: the task cannot be run; every problem is named.
            NoReadyWorker: nobody would work on it; nothing was started.
        """
        text_or_none("run_id", run_id)
        text_or_none("idempotency_key", idempotency_key)
        given = flags_of(flags)
        with pipes_read_anew():
            spec = await self._spec(task, given)
        run = await self.gateway.start(
            spec, run_id=run_id, idempotency_key=idempotency_key, by=self.by
        )
        return self._handle(run)

    async def run(self, task: Task, *, flags: Flags | None = None) -> RunResult:
        """Start a run and wait for its result.

        If the wait is interrupted, the run goes on; a note at the error says how to find it.
        """
        run = await self.start(task, flags=flags)
        try:
            return await run.result()
        # Also for Ctrl-C and a cancelled task, after which a person looks for the run.
        except BaseException as ended:
            ended.add_note(
                f"The run goes on unless it has ended: client.attach({run.id!r}) finds it."
            )
            raise

    async def runs(
        self,
        *,
        label: str | None = None,
        status: str | None = None,
        outcome: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """The newest runs that somebody started, as `perdure list` shows them.

        Args:
            label: only those with this label.
            status: only those in this state, such as `running`.
            outcome: only those that ended so, such as `accepted`.
            limit: most runs of a page.
            cursor: that of the page before, for the next one.

        Raises:
            InvalidInput: there is no such state or outcome.
        """
        wanted = {"label": label, "status": status, "outcome": outcome, "cursor": cursor}
        told = {**wanted, "limit": count("limit", limit, least=1)}
        return await self.gateway.list(made(RunFilter, told, heading="The filter"))

    async def fork(
        self,
        name: str,
        *,
        from_iteration: int,
        flags: Flags | None = None,
        goal: str | None = None,
        label: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> RunHandle:
        """Start a new run that goes on from an iteration of another, with changed settings.

        It has a budget and an account of its own; the other run is not touched.

        Args:
            name: the other run by its id, a unique beginning of it, or `@last`.
            from_iteration: the iteration after which the new run begins.
            flags: what is changed; `sets` reach any field.
            goal: another goal.
            label: another label.
            run_id: the id it gets; the same id twice is one run.
            idempotency_key: the same key is one run, whenever it is sent.

        Raises:
            InvalidInput: there is no such iteration, or settings that do not fit it.
            NotAllowed: nothing can start from it.
            NoReadyWorker: nobody would work on it; nothing was started.
        """
        iteration = count("from_iteration", from_iteration, least=1)
        told = {"goal": goal, "label": label, "run_id": run_id, "idempotency_key": idempotency_key}
        for argument, value in told.items():
            text_or_none(argument, value)
        run = await self.gateway.resolve(text("name", name, allowed=RUN))
        spec = await self.gateway.fork_spec(run, iteration)
        changed = revise(
            spec, flags_of(flags), surroundings=self.surroundings, goal=goal, label=label
        )
        spec = await store(changed, self.blobs)
        started = await self.gateway.fork(
            run, iteration, spec, run_id=run_id, idempotency_key=idempotency_key, by=self.by
        )
        return self._handle(started)

    async def attach(self, name: str) -> RunHandle:
        """A run by its id, a unique beginning of it, or `@last`."""
        return self._handle(await self.gateway.resolve(text("name", name, allowed=RUN)))

    async def _spec(self, task: Task, flags: Flags) -> Spec:
        match cast("object", task):
            case AgentSpec() | RefineSpec() | RolesSpec() | DelegationSpec() as spec:
                # Only to refuse what JSON cannot say, such as NaN, which models let through.
                plain_fields(spec.model_dump(by_alias=True), heading=SPECIFICATION)
                submission = load_spec(spec, surroundings=self.surroundings)
                if flags != Flags():
                    read = revise(submission.spec, flags, surroundings=self.surroundings)
                    submission = replace(read, blobs={**submission.blobs, **read.blobs})
            case PurePath() as path:
                file = self._task_file(path)
                submission = await self._seen(lambda at: load(file, flags, surroundings=at))
            case str(words):
                submission = await self._seen(lambda at: load(words, flags, surroundings=at))
            case Mapping() as given:
                fields = plain_fields(given, heading=SPECIFICATION)
                submission = await self._seen(lambda at: load_data(fields, flags, surroundings=at))
            case other:
                raise wrong("task", other, TASK)
        return await store(submission, self.blobs)

    def _task_file(self, path: PurePath) -> str:
        """A path always means a file, where the same words could be a goal."""
        found = (self.surroundings.folder or Path()) / path
        if not is_readable(found):
            raise NotFound(f"There is no task file {found}.", cure="Check the path.")
        return str(found)

    async def _seen(self, make: Callable[[Surroundings], Submission]) -> Submission:
        return await as_workers_see(make, self.surroundings, self.gateway.default_model)

    def _handle(self, run: str) -> RunHandle:
        return RunHandle(run, gateway=self.gateway, live=self.live, by=self.by)


def _log_standing(words: str) -> None:
    """Log what the caller must know, such as settings that wait for a restart of the services.

    Other progress is not told, as a failure is raised anyway.
    """
    if isinstance(words, Standing):
        _log.warning("connecting", note=str(words))
