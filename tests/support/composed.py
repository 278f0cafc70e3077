"""The services of docker-compose.yml as processes of this machine, with their own environment.

What Docker would do is done here in the plainest way: variables are interpolated, names of services
become loopback addresses, published ports free ones, and folders of a container temporary folders.
"""

import asyncio
import os
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@dataclass
class Composed:
    """The compose file, the shell's variables, and where each service is found on this machine."""

    folder: Path
    variables: Mapping[str, str]
    places: dict[str, tuple[str, int]]  # `temporal:7233`: the loopback port that stands for it
    content: dict[str, Any] = field(init=False)
    image: dict[str, str] = field(init=False)
    command: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Read the compose file and what the image adds."""
        self.content = yaml.safe_load(self._interpolated(FILE.read_text("utf-8")))
        lines = (ROOT / "ops/Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
        words = [word for line in lines if line.startswith("ENV ") for word in line.split()[1:]]
        self.image = dict(word.split("=", 1) for word in words)
        (command,) = (line for line in lines if line.startswith("CMD "))
        self.command = yaml.safe_load(command.removeprefix("CMD "))

    def _interpolated(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name, rule, word = found.groups()
            given = self.variables.get(name, "")
            assert given or rule != "?", f"{name}: {word}"
            return given or word or ""

        return _VARIABLE.sub(value, text)

    def service(self, name: str) -> dict[str, Any]:
        """One service as the file has it."""
        return self.content["services"][name]

    def here(self, text: str) -> str:
        """A text of a container, with the addresses that hold on this machine."""
        for place, (service, port) in self.places.items():
            host, inside = place.split(":")
            text = re.sub(rf"(?<![\w.]){host}:{inside}\b", f"{service}:{port}", text)
        return text

    def local(self, name: str, text: str) -> str:
        """The same for one service, with its folders, and itself as its own loopback."""
        if text.startswith("file:/"):
            return f"file:{self.local(name, text.removeprefix('file:'))}"
        for inside, outside in self._folders(name):
            if text == inside or text.startswith(f"{inside}/"):
                text = f"{outside}{text.removeprefix(inside)}"
                break
        own = {place.split(":")[1]: port for place, (_, port) in self.places.items()
               if place.startswith(f"{name}:")}  # fmt: skip
        for inside, port in own.items():
            text = text.replace(f"127.0.0.1:{inside}", f"127.0.0.1:{port}")
        return self.here(text)

    def _folders(self, name: str) -> list[tuple[str, Path]]:
        """Folders of a container, and what stands for them; volumes are shared."""
        own = ("/tmp", "/work", "/run/secrets")
        found = [(inside, self.folder / name / inside[1:]) for inside in own]
        for volume in self.service(name).get("volumes", []):
            source, inside = volume.split(":")[:2]
            shared = ROOT / source if source.startswith(".") else self.folder / "volumes" / source
            found.insert(0, (inside, shared))
        return [*found, ("/var/lib/perdure", self.folder / name / "var")]

    def environment(self, name: str) -> dict[str, str]:
        """Exactly what the container of a service gets, and where its programs are here."""
        service = self.service(name)
        inside = {**(self.image if "build" in service else {}), **service.get("environment", {})}
        made = {key: self.local(name, str(value)) for key, value in inside.items()}
        home = self.folder / name / "home"
        for made_there in (home, *(outside for _, outside in self._folders(name))):
            made_there.mkdir(parents=True, exist_ok=True)
        for secret in service.get("secrets", []):
            variable = self.content["secrets"][secret]["environment"]
            assert self.variables.get(variable), f"{variable} is not set"
            (self.folder / name / "run/secrets" / secret).write_text(self.variables[variable])
        return {**made, **plain_shell(home)}

    def words(self, name: str) -> list[str]:
        """The command of a service."""
        service = self.service(name)
        words = service.get("entrypoint") or service.get("command") or self.command
        return [self.local(name, word) for word in words]

    async def job(self, name: str, *words: str, **more: str) -> tuple[int, str]:
        """Run a service, or another command in its container, to its end."""
        return await run(words or self.words(name), {**self.environment(name), **more}, self.folder)

    async def healthy(self, name: str) -> bool:
        """Whether the health check of a service succeeds."""
        kind, *words = self.service(name)["healthcheck"]["test"]
        assert kind == "CMD"
        return (await self.job(name, *[self.local(name, word) for word in words]))[0] == 0

    @asynccontextmanager
    async def up(
        self, name: str, *words: str, **more: str
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """A service in a process of its own; asked to end with the block, as Docker asks."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(words or self.words(name)),
                env={**self.environment(name), **more},
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 60)
            except TimeoutError:
                process.kill()
                await process.wait()
                raise


def plain_shell(home: Path) -> dict[str, str]:
    """What a shell has without anything of ours."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": tempfile.gettempdir()}


async def run(
    words: tuple[str, ...] | list[str], environment: Mapping[str, str], folder: Path
) -> tuple[int, str]:
    """A program's exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *words,
        env=environment,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


def recipe() -> list[tuple[dict[str, str], list[str]]]:
    """The commands in the head of the file: the variables before each, and its words."""
    lines = FILE.read_text("utf-8").splitlines()
    head = "\n".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))
    made: list[tuple[dict[str, str], list[str]]] = []
    for line in head.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        first = next(at for at, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))
        made.append((dict(word.split("=", 1) for word in words[:first]), words[first:]))
    return made
