"""Secrets by reference: `env:NAME`, `file:PATH` or `command:PROGRAM …`.

A setting of a secret may hold a reference instead of the value. Only this module follows them, and
it tells the redactor each value before it returns it. Messages name the setting and the reference,
never the value.
"""

import json
import os
import selectors
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from perdure.adapters.logging.redacting import keep_secret, secrets_of_url, without_secrets
from perdure.domain.foundation.errors import InvalidInput

ENV, FILE, COMMAND = "env:", "file:", "command:"
KINDS = (ENV, FILE, COMMAND)
WAYS = "env:NAME, file:PATH or command:PROGRAM"
COMMAND_TIMEOUT_S = 10.0
MOST_BYTES = 64 * 1024
SHOWN_BYTES = 300
TOO_LONG = f"it holds more than {MOST_BYTES} bytes"
# The operator's own programs get no keys of ours.
OUR_VARIABLES = ("PERDURE_", "ANTHROPIC_", "AZURE_OPENAI_", "OPENAI_", "TEMPORAL_", "OTEL_")

# Each command runs once per process, because it may be slow, or ask a person.
_answers: dict[str, str] = {}


def is_reference(text: str) -> bool:
    return text.startswith(KINDS)


def secret_value(setting: str, text: str) -> str:
    """The secret in a setting, or the one that it refers to.

    Raises:
        InvalidInput: the reference cannot be followed.
    """
    return resolve_reference(setting, text) if is_reference(text) else text


def resolve_reference(setting: str, reference: str, *, cure: str = "") -> str:
    """The secret that a reference leads to, without the line end of a file or a program's output.

    Args:
        setting: the name of the setting in messages.
        reference: `env:NAME`, `file:PATH`, or `command:` with words or a JSON list of them.
        cure: what to do about an error, instead of the usual advice.

    Raises:
        InvalidInput: it is not a reference, or cannot be followed.
    """
    if not is_reference(reference):
        # It may be the secret itself, set by mistake, so it is not shown.
        raise _reference_error(setting, "holds no reference", cure or f"Set it to {WAYS}.")
    kind, _, place = reference.partition(":")
    try:
        # Line ends alone, since a secret may begin or end with a space.
        value = _READERS[kind](place).strip("\r\n")
        if not value.strip():
            raise _CannotFollow("it is empty")
    except _CannotFollow as nothing:
        what = f"refers to {shown(reference)}, but {nothing}"
        raise _reference_error(
            setting, what, cure or _CURES[kind].format(setting=setting)
        ) from None
    keep_secret([value, *secrets_of_url(value)])
    return value


def sendable(setting: str, secret: str) -> str:
    """The secret as a header can carry it: without blanks around it.

    Raises:
        InvalidInput: it holds a sign that no key has.
    """
    bare = secret.strip()
    if bare.isascii() and bare.isprintable():
        return bare
    raise InvalidInput(
        f"{setting} holds a sign that no key has, such as a typographic dash or a line end "
        "(it is not shown).",
        cure="Copy the key again, as plain text.",
    )


def shown(reference: str) -> str:
    """A reference as messages show it; of a command only its program: arguments may be secret."""
    kind, _, place = reference.partition(":")
    if kind != "command":
        return reference
    try:
        return f"{COMMAND}{_words(place)[0]} …"
    except _CannotFollow:
        return f"{COMMAND}…"


def foreign_environment() -> dict[str, str]:
    """This process's environment for the operator's own programs, without our keys."""
    return {name: text for name, text in os.environ.items() if not name.startswith(OUR_VARIABLES)}


class _CannotFollow(Exception):
    """The reason why a reference cannot be followed."""


def _reference_error(setting: str, what: str, cure: str) -> InvalidInput:
    return InvalidInput(f"{setting} {what}.", cure=cure)


def _of_variable(name: str) -> str:
    if name not in os.environ:
        raise _CannotFollow("that variable is not set")
    return os.environ[name]


def _of_file(place: str) -> str:
    try:
        with Path(place).expanduser().open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _CannotFollow(f"it cannot be read ({error.strerror})") from None
    except RuntimeError:
        raise _CannotFollow("nobody knows the user behind `~`") from None
    return _text(data)


def _of_command(place: str) -> str:
    if place not in _answers:
        _answers[place] = _text(_output(_words(place)))  # a failure is not kept: it is asked again
    return _answers[place]


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise _CannotFollow(TOO_LONG)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _CannotFollow("it holds no UTF-8 text") from None


def _words(place: str) -> list[str]:
    """The words of a command: quoted as in a shell, which is not run, or a JSON list."""
    try:
        words: object = json.loads(place) if place.startswith("[") else shlex.split(place)
    except ValueError:
        words = None
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise _CannotFollow("its words cannot be read")
    return [str(word) for word in words]


def _output(argv: list[str]) -> bytes:
    """The output of a program, limited in time and size; then it and its children are killed."""
    try:
        process = subprocess.Popen(
            argv,
            # It must not wait at a terminal, or eat what the command is given.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=foreign_environment(),
            start_new_session=True,  # a group, to be ended with its children
        )
    except OSError as error:
        raise _CannotFollow(f"it cannot be started ({error.strerror})") from None
    with process:
        try:
            out, err = _read(process)
            code = process.wait(timeout=COMMAND_TIMEOUT_S)  # it may close its output and go on
        except subprocess.TimeoutExpired:
            raise _CannotFollow(f"it took longer than {COMMAND_TIMEOUT_S:g} s") from None
        finally:
            # Also where it ended well: what it left in the background ends with it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code:
        said = without_secrets(" ".join(err.decode(errors="replace").split()))
        raise _CannotFollow(f"it ended with {code}" + (f": {said}" if said else ""))
    return out


def _read(process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
    """The output, and the end of the standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    late = time.monotonic() + COMMAND_TIMEOUT_S
    out, err = b"", b""
    # Both at once: a program whose one pipe is full waits until somebody reads that.
    with selectors.DefaultSelector() as streams:
        for stream in (process.stdout, process.stderr):
            streams.register(stream, selectors.EVENT_READ)
        while streams.get_map():
            if len(out) > MOST_BYTES:
                raise _CannotFollow(TOO_LONG)
            if not (ready := streams.select(late - time.monotonic())):
                raise subprocess.TimeoutExpired(process.args, COMMAND_TIMEOUT_S)
            for key, _ in ready:
                data = os.read(key.fd, 4096)
                if not data:
                    streams.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    out += data
                else:
                    err = (err + data)[-SHOWN_BYTES:]
    return out, err


_READERS = {"env": _of_variable, "file": _of_file, "command": _of_command}
_CURES = {
    "env": "Set that variable where this process starts, or correct {setting}.",
    "file": "Write the secret into that file, readable by this user, or correct {setting}.",
    "command": "Run that command by hand as this user; it must print the secret alone.",
}
