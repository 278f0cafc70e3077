"""Runs programs on the files of an iteration: in bubblewrap, or without if the worker allows it.

The worker's settings name every program that may run; a specification only picks one of them.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.adapters.sandbox.bubblewrap import (
    OUTPUT,
    WORK,
    find_bubblewrap,
    gave_no_answer,
    homes_of,
    programs_of,
    wrapped,
)
from perdure.adapters.sandbox.process import USUAL_CAPS, Caps, Launch, run_process
from perdure.domain.evaluation.program_checks import OUTPUT_CAP, TEST_REPORT, Command, Ran
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.tools.selection import SHELL_FULL
from perdure.event_log import get_logger

PROBE_S = 20.0
PROBE_BYTES = 2_000
SHELL = "/bin/sh"
SHIMS = "shims"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
BUSY = "Try again: the host may be busy"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the worker's settings allow.

    Args:
        commands: programs that may run in the sandbox.
        plain: those of them that may run without a sandbox if bubblewrap is missing.
        networked: those of them that may use the host's network in the sandbox.
        readable: folders outside the system's own that sandboxed programs may read.
        timeout_s: the longest that a program may take.
        search: where programs are looked for, as in `PATH`.
        caps: what a program and everything that it started may use together.
    """

    commands: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    networked: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    timeout_s: float = 120.0
    search: str = SYSTEM_PATH
    caps: Caps = USUAL_CAPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A shell script, and the folder that it works on.

    `fixed` are paths of the folder that it cannot change, `hidden` those it cannot even read.
    """

    text: str
    folder: str
    timeout_s: float | None = None
    cap: int = OUTPUT_CAP
    fixed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class LocalCommands:
    """The port `CommandRunner` on this machine."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowed = allowance
        self._probing = asyncio.Lock()
        self._bwrap: str | None = None
        self._trouble = ""
        self._known = False  # whether the sandbox works: a probe may end without an answer

    def allows(self, program: str) -> bool:
        """Whether the worker's settings name a program."""
        return program in self._allowed.commands

    async def admit(self, program: str) -> None:
        """Raise the `NotAllowed` that `run` would raise for this program."""
        self._program(program)
        if await self._sandbox() is None:
            self._require_plain(program)

    async def run(self, command: Command) -> Ran:
        """Run a program on its folder.

        Raises:
            NotAllowed: the settings do not name it, it is not installed, or there is no sandbox.
        """
        program = self._program(command.argv[0])
        given = command.timeout_s or self._allowed.timeout_s
        with tempfile.TemporaryDirectory(prefix="perdure-output-") as scratch:
            output = Path(scratch) / "output.txt"
            output.write_bytes(command.output.encode("utf-8", "replace"))
            output.chmod(0o644)  # for the user that the program gets, whatever the worker's mask
            launch = Launch(
                argv=(),
                folder=command.folder,
                # Empty, since bubblewrap's own process would show the program what it was given.
                environment={},
                stdin=output.read_bytes(),
                timeout_s=min(given, self._allowed.timeout_s),
                cap=command.cap,
                caps=self._allowed.caps,
            )
            if await self._sandbox() is not None:
                return await self._enclosed(command, program, launch, str(output))
            return await self._plain(command, program, launch, str(output))

    async def sandbox_obstacle(self) -> str:
        """Why programs cannot run in a sandbox on this host; empty if they can."""
        return "" if await self._sandbox() is not None else self._trouble

    async def shell_obstacle(self) -> str:
        """Why no shell can run on this host; empty if one can."""
        if not self.allows(SHELL_FULL):
            return (
                f"its settings do not name it. Whoever runs the worker can add {SHELL_FULL} to "
                "PERDURE_ALLOW_COMMANDS"
            )
        if await self._sandbox() is None:
            cure = "Install bubblewrap: make sandbox-setup" if self._known else BUSY
            return f"{self._trouble}. {cure}"
        return ""

    async def run_shell(self, script: Script) -> Ran:
        """Run a shell script on a folder, in the sandbox or not at all.

        It can call the programs that the settings name, also those outside the system's folders.

        Raises:
            NotAllowed: the settings do not name the shell, or there is no sandbox.
        """
        if obstacle := await self.shell_obstacle():
            raise NotAllowed(f"{SHELL_FULL} was not run on this worker: {obstacle}.")
        found = [shutil.which(name, path=self._search) for name in self._allowed.commands]
        homes = dict.fromkeys(home for path in found if path for home in homes_of(path))
        path = os.pathsep.join([*programs_of([*homes]), SYSTEM_PATH])
        timeout_s = min(script.timeout_s or self._allowed.timeout_s, self._allowed.timeout_s)
        argv = wrapped(
            self._bwrap or "",
            [SHELL, "-c", script.text],
            folder=script.folder,
            readable=tuple(dict.fromkeys((*homes, *self._allowed.readable))),
            environment=_variables((), path=path, home="/tmp", folder=WORK),
            fixed=script.fixed,
            hidden=script.hidden,
            processes=self._allowed.caps.processes,
            network=SHELL_FULL in self._allowed.networked,
        )
        launch = Launch(
            argv=argv,
            folder=script.folder,
            environment={},
            stdin=b"",
            timeout_s=timeout_s,
            cap=script.cap,
            caps=self._allowed.caps,
            enclosed=True,
        )
        return await run_process(launch)

    async def _enclosed(self, command: Command, program: str, launch: Launch, output: str) -> Ran:
        homes = homes_of(program)
        path = os.pathsep.join([*programs_of([*homes]), SYSTEM_PATH])
        argv = wrapped(
            self._bwrap or "",
            [program, *_filled(command, output=OUTPUT, folder=WORK)],
            folder=command.folder,
            output=output,
            readable=tuple(dict.fromkeys((*homes, *self._allowed.readable))),
            environment=_variables(command.environment, path=path, home="/tmp", folder=WORK),
            processes=self._allowed.caps.processes,
            network=command.argv[0] in self._allowed.networked,
        )
        return await run_process(replace(launch, argv=argv, enclosed=True))

    async def _plain(self, command: Command, program: str, launch: Launch, output: str) -> Ran:
        self._require_plain(command.argv[0])
        with tempfile.TemporaryDirectory(prefix="perdure-home-") as home:
            variables = _variables(
                command.environment, path=self._search, home=home, folder=command.folder
            )
            argv = (program, *_filled(command, output=output, folder=command.folder))
            return await run_process(replace(launch, argv=argv, environment=variables))

    def _require_plain(self, name: str) -> None:
        # A program that may run in the open where there is no sandbox waits for a slow one.
        if name not in self._allowed.plain or not self._known:
            raise NotAllowed(
                f"{name} was not run: {self._trouble}.",
                cure="Install bubblewrap (make sandbox-setup), or name the program in "
                "PERDURE_PLAIN_COMMANDS to have it run without a sandbox."
                if self._known
                else f"{BUSY}.",
            )

    def _program(self, name: str) -> str:
        if name not in self._allowed.commands:
            allowed = ", ".join(self._allowed.commands) or "none"
            raise NotAllowed(
                f"{name} may not run on this worker; allowed: {allowed}.",
                cure="Name it in the worker's setting PERDURE_ALLOW_COMMANDS.",
            )
        found = shutil.which(name, path=self._search)
        if found is None:
            raise NotAllowed(
                f"{name} is not installed on this worker (looked in {self._search}).",
                cure="Install it, or start the worker with a PATH that leads to it.",
            )
        # Not the real path: a Python finds its virtual environment by the link that is called.
        return os.path.abspath(found)

    @property
    def _search(self) -> str:
        # After PATH come the programs beside the worker's own Python. The shims of version managers
        # (pyenv, asdf, mise) come last: what they start is outside the sandbox.
        given = self._allowed.search.split(os.pathsep)
        shims = [folder for folder in given if os.path.basename(folder.rstrip("/")) == SHIMS]
        others = [folder for folder in given if folder not in shims]
        return os.pathsep.join([*others, os.path.dirname(sys.executable), *shims])

    async def _sandbox(self) -> str | None:
        """The path of bubblewrap if it is installed and works; tried until there is an answer."""
        async with self._probing:
            if not self._known:
                self._known = await self._probe()
        return self._bwrap

    async def _probe(self) -> bool:
        """Try the sandbox; returns whether that told anything."""
        found = find_bubblewrap(self._allowed.search)
        if found is None:
            self._trouble = "bubblewrap is not installed"
            return True
        try:
            argv = wrapped(found, ["/bin/true"])
        except NotAllowed as error:
            self._trouble = error.message.rstrip(".")
            return True
        ran = await run_process(
            Launch(
                argv=argv,
                folder="/",
                environment={},
                stdin=b"",
                timeout_s=PROBE_S,
                cap=PROBE_BYTES,
                caps=None,
                enclosed=True,
            )
        )
        if gave_no_answer(ran.code):
            _log.warning("sandbox_gave_no_answer", within_s=PROBE_S)
            self._trouble = f"bubblewrap gave no answer within {PROBE_S:g} s"
            return False
        if ran.code == 0:
            self._bwrap = found
        else:
            said = " ".join(ran.err.split()) or f"exit code {ran.code}"
            self._trouble = f"bubblewrap does not work here ({said[:300]})"
        return True


def _filled(command: Command, *, output: str, folder: str) -> list[str]:
    report = f"{folder}/{TEST_REPORT}"
    return [
        word.replace("{output}", output).replace("{report}", report) for word in command.argv[1:]
    ]


def _variables(
    given: Sequence[tuple[str, str]], *, path: str, home: str, folder: str
) -> Mapping[str, str]:
    # `CI` and `NO_COLOR` keep test runners from watching for changes and from colours in reports.
    fixed = {
        "PATH": path,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "CI": "1",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**fixed, **{name: value.replace("{folder}", folder) for name, value in given}}
