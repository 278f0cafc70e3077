"""What the command line is given: the services, and what commands may start or change."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from pydantic import BaseModel

from perdure.domain.evaluation.rubric import RubricProblems, no_problems
from perdure.domain.installation.configuration import Setting
from perdure.domain.llm.attachments import Measure, not_measured
from perdure.domain.ports import Endpoints
from perdure.interfaces.services import (
    Check,
    Collected,
    Killed,
    LogEntry,
    MovedContent,
    OnProgress,
    Replayed,
    Rewrapped,
    RuntimeView,
    Services,
)
from perdure.submission.types import ModelNotes, no_notes

if TYPE_CHECKING:
    from perdure.domain.installation.encryption_keys import KeyUse
    from perdure.domain.roles.definition_library import DefinitionStore


class Config(Protocol):
    """The settings that apply here, and the files that hold them."""

    def settings(self) -> Sequence[Setting]:
        """All settings; raises `InvalidInput` if a file or a variable is wrong."""
        ...

    def put(self, name: str, text: str | None, *, here: bool) -> Path:
        """Write a setting into the file of the home folder or of this folder; None removes it."""
        ...

    def trust(self) -> Path | None:
        """Trust the settings in this folder's file; None if there are none to trust."""
        ...


class Connect(Protocol):
    """Opens the services; with `start`, missing embedded services are started first.

    If a server is named, nothing is started unless `with_worker` asks for a worker of ours.
    """

    def __call__(
        self, *, start: bool, on_progress: OnProgress, with_worker: bool = False
    ) -> AbstractAsyncContextManager[Services]: ...


class ReadLogs(Protocol):
    """Reads the logs of one service, or of all."""

    def __call__(
        self, part: str | None, *, lines: int, follow: bool
    ) -> AsyncIterator[LogEntry]: ...


class RunCodec(Protocol):
    """Serves as codec server for pages of these origins; reports its address once it is up."""

    def __call__(
        self, *, port: int | None, origins: Sequence[str], on_ready: OnProgress
    ) -> Awaitable[None]: ...


class RunApi(Protocol):
    """Serves the REST API on an address; reports the address once it is up."""

    def __call__(
        self, *, host: str | None, port: int | None, on_ready: OnProgress
    ) -> Awaitable[None]: ...


class InHome(Protocol):
    """The same context over another home folder (None: the current one)."""

    def __call__(self, home: Path) -> "AppContext": ...


class EncryptionKeys(Protocol):
    """The encryption keys of an installation; see `perdure.operations.keys`."""

    async def uses(self) -> "list[KeyUse]":
        """What needs each key."""
        ...

    async def rewrap(self) -> Rewrapped:
        """Encrypt rows and blobs again with the current key."""
        ...

    async def retire(self, key: str, lost: bool) -> "KeyUse":
        """Retire a key that nothing needs, or that is lost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """Everything that the command line is given.

    Args:
        connect: opens `Services` for one command.
        up: runs the services in the foreground until they are asked to stop.
        ensure: starts missing services with exactly the settings of this shell, and returns their
            addresses.
        down: stops the services; False if none ran.
        state: the services as they run now, or None.
        logs: log lines, the newest last.
        run_worker: runs a worker until asked to stop.
        run_codec: decrypts payloads for the Web UI until asked to stop.
        run_api: serves the REST API until asked to stop.
        setup_model: installs the embedded model; returns a sentence on what was done.
        replay: replays histories (JSON bytes by name) against this code.
        doctor: checks the installation, one check after the other.
        collect: deletes blobs that nothing needs; with True it only counts them.
        move_blobs: moves older blobs to the object store.
        keys: shows what needs which encryption key, encrypts again, and retires keys.
        kill_worker: kills the embedded worker at once.
        lay_out: copies the example of a ready-made task to a folder.
        loops: opens the loop definitions, which need no server.
        in_home: a context for another home folder.
        with_plugins: a context whose services load these files or modules too.
        config: the settings, and the files that hold them.
        setting_names: keys of `perdure.yaml` that are settings, not defaults of tasks.
        home: the home folder; `named_home` says that the user chose it.
        folder: the folder that commands work in.
        user: who steers, for audit trails.
        user_defaults: the user's own `perdure.yaml`.
        default_model: for runs that name no model.
        now: the clock.
        version: of the product.
        rubric_problems: finds invalid patterns and schemas in a rubric.
        file_formats: models of files that adapters read, for their schemas.
        model_notes: warns about models that the provider retires soon or has retired.
        measure: measures the pixels of images and the pages of PDFs.
        stdout: where output goes; progress and errors go to `stderr`.
        stdin: where a person answers questions; None: nobody does.
        rate_per_minute: requests of one token a minute, over HTTP.
        token_days: after how many days a new token expires; None: never.
    """

    connect: Connect
    up: Callable[[Callable[[RuntimeView], None]], Awaitable[None]]
    ensure: Callable[[OnProgress], Awaitable[Endpoints]]
    down: Callable[[], Awaitable[bool]]
    state: Callable[[], Awaitable[RuntimeView | None]]
    logs: ReadLogs
    run_worker: Callable[[], Awaitable[None]]
    run_codec: RunCodec
    run_api: RunApi
    setup_model: Callable[[OnProgress], Awaitable[str]]
    replay: Callable[[dict[str, bytes]], AsyncIterator[Replayed]]
    doctor: Callable[[], AsyncIterator[Check]]
    collect: Callable[[bool], Awaitable[Collected]]
    move_blobs: Callable[[], Awaitable[MovedContent]]
    keys: EncryptionKeys
    kill_worker: Callable[[], Awaitable[Killed]]
    lay_out: Callable[[Path, Path], Awaitable[None]]
    loops: "Callable[[], DefinitionStore]"
    in_home: InHome
    with_plugins: Callable[[Sequence[str]], "AppContext"]
    config: Config
    home: Path
    named_home: bool
    folder: Path
    user: str
    user_defaults: Path
    default_model: str
    now: Callable[[], datetime]
    version: str
    stdout: TextIO
    stderr: TextIO
    stdin: TextIO | None = None
    rate_per_minute: int = 600
    token_days: int | None = 90
    rubric_problems: RubricProblems = no_problems
    setting_names: frozenset[str] = frozenset()
    file_formats: Callable[[], Mapping[str, type[BaseModel]]] = dict
    model_notes: ModelNotes = no_notes
    measure: Measure = not_measured
