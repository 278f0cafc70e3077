"""Notifies people that a gate waits: by a webhook, by a command, or not at all.

A notice may contain a model's words, so it is sent as JSON in a body or on standard input, never in
a command line. A webhook's address is a secret, so messages name only its host.
"""

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
import os
import shlex
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

import httpx2
from pydantic import TypeAdapter

from perdure.adapters.logging.redacting import data_without_secrets, without_secrets
from perdure.adapters.retry_after import retry_after_of
from perdure.adapters.settings.secret_references import WAYS, foreign_environment, resolve_reference
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput, ServiceUnavailable
from perdure.domain.ports import Notifier
from perdure.domain.run.answering import answer_command
from perdure.domain.run.notices import Event, ReceiverBusy, id_of, key_of

WEBHOOK_TIMEOUT_S = 10.0
# Shorter than the lease of a notice, or a second worker would send it meanwhile.
COMMAND_TIMEOUT_S = 30.0
SHOWN_BYTES = 400
WAITED_OUT_STATUS = frozenset({408, 425, 429})
# Secret and signature have the form of Standard Webhooks (https://www.standardwebhooks.com).
SECRET_PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
CURE = (
    f"Set PERDURE_NOTIFY_SECRET to {WAYS} of `whsec_` and the base64 of 24 to 64 bytes; "
    '`echo "whsec_$(openssl rand -base64 32)"` makes one.'
)
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def signing_secret(reference: str) -> bytes:
    """The signing secret that a reference leads to.

    Raises:
        InvalidInput: the reference cannot be followed, or leads to something else.
    """
    text = resolve_reference("PERDURE_NOTIFY_SECRET", reference, cure=CURE).strip()
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(
            "The secret behind PERDURE_NOTIFY_SECRET is not base64.", cure=CURE
        ) from None
    if not SHORTEST <= len(secret) <= LONGEST:
        raise InvalidInput(
            f"The secret behind PERDURE_NOTIFY_SECRET has {len(secret)} bytes; {SHORTEST} to "
            f"{LONGEST} are allowed.",
            cure=CURE,
        )
    return secret


def signed_headers(secret: bytes, *, key: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers of one signed delivery.

    Args:
        secret: the secret that is shared with the receiver.
        key: the idempotency key of the notice. Its hash is the id, since an id must have no dots.
        at: the time of this delivery, in seconds since 1970.
        body: the exact bytes that are sent.
    """
    name = id_of(key)
    signed = f"{name}.{at}.".encode() + body
    digest = base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
    return {"webhook-id": name, "webhook-timestamp": str(at), "webhook-signature": f"v1,{digest}"}


class NoNotices:
    """No channel is configured; people see open gates only in the list."""

    async def notify(self, event: Event) -> bool:
        """Deliver nothing; returns False."""
        return False


class WebhookNotices:
    """Posts each notice as JSON, signed if there is a secret."""

    def __init__(
        self, url: str, *, secret: bytes | None = None, timeout_s: float = WEBHOOK_TIMEOUT_S
    ) -> None:
        self._url = _checked(url)
        self._secret = secret
        self._timeout = timeout_s

    async def notify(self, event: Event) -> bool:
        """Post one notice.

        Raises:
            ServiceUnavailable: the host did not accept it; a later attempt may succeed.
            InvalidInput: the host refuses it; a later attempt succeeds only after somebody mended
                the address or the receiver.
        """
        host = self._url.host
        # The signature covers these bytes, so exactly they are sent.
        body = json.dumps(worded(event)).encode()
        try:
            # httpx's own timeout is one of each read; this one holds for the whole delivery.
            status, wait_s = await asyncio.wait_for(self._posted(event, body), self._timeout)
        except (httpx2.HTTPError, TimeoutError) as error:
            # Not chained: the words of the cause may hold the address, which is a secret.
            raise ServiceUnavailable(
                f"The webhook at {host} was not reached ({type(error).__name__}).",
                cure="Check the address in PERDURE_NOTIFY_WEBHOOK and the network.",
            ) from None
        if httpx2.codes.is_success(status):
            return True
        message = f"The webhook at {host} answered {status}."
        cure = "Check PERDURE_NOTIFY_WEBHOOK, and what its receiver expects."
        if status >= 500 or status in WAITED_OUT_STATUS:
            raise ReceiverBusy(message, cure=cure, wait_s=wait_s)
        raise InvalidInput(message, cure=cure)

    async def _posted(self, event: Event, body: bytes) -> tuple[int, float]:
        """Send the notice; returns the status of the answer, and the seconds it asks to wait.

        The body of the answer is never read. The receiver has decided with the status, and a body
        that is slow, endless or cut off must not lead to a second delivery.
        """
        headers = self._headers(event, body)
        # Redirects are not followed: the notice goes only where the operator said.
        async with (
            httpx2.AsyncClient(timeout=self._timeout) as client,
            client.stream("POST", self._url, content=body, headers=headers) as answer,
        ):
            return answer.status_code, retry_after_of(answer.headers) or 0.0

    def _headers(self, event: Event, body: bytes) -> Mapping[str, str]:
        # The same key for every repeat of a notice, so that the receiver can drop repeats.
        key = key_of(event)
        headers = {
            "content-type": "application/json",
            "idempotency-key": key.encode("ascii", "replace").decode(),
        }
        if self._secret is None:
            return headers
        return headers | signed_headers(self._secret, key=key, at=int(time.time()), body=body)


class CommandNotices:
    """Runs a command for each notice, with the notice as JSON on its standard input.

    The command gets the worker's environment without Perdure's variables and the model's key.
    """

    def __init__(self, argv: Sequence[str], *, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._argv = tuple(argv)
        self._timeout = timeout_s

    async def notify(self, event: Event) -> bool:
        """Run the command once.

        Raises:
            ServiceUnavailable: it failed or took too long.
            InvalidInput: there is no such command.
        """
        with tempfile.TemporaryFile() as said:
            code = await self._run(json.dumps(worded(event)).encode(), said)
            if code == 0:
                return True
            how = f"ended with {code}" if code is not None else f"took over {self._timeout:g} s"
            raise ServiceUnavailable(
                f"The notify command {self._argv[0]} {how}{_last_words(said)}.",
                cure="Run it by hand with a JSON object on standard input.",
            )

    async def _run(self, notice: bytes, said: IO[bytes]) -> int | None:
        """The exit code; None if the command took too long."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                # A file and not a pipe, which a child in the background could hold open for ever.
                stderr=said,
                env=foreign_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise InvalidInput(
                f"The notify command {self._argv[0]} cannot be started: {error.strerror}.",
                cure="Correct PERDURE_NOTIFY_COMMAND.",
            ) from None
        try:
            await asyncio.wait_for(process.communicate(notice), self._timeout)
        except TimeoutError:
            return None
        finally:
            # Also when the step is cancelled; with its group, since it may have started others.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return process.returncode


class BothNotices:
    """Sends each notice to all channels; it counts as delivered if one accepts it."""

    def __init__(self, channels: Sequence[Notifier]) -> None:
        self._channels = tuple(channels)

    async def notify(self, event: Event) -> bool:
        """Deliver by all channels at once; raises the first failure if all fail."""
        ends = await asyncio.gather(
            *(channel.notify(event) for channel in self._channels), return_exceptions=True
        )
        failures = [end for end in ends if isinstance(end, BaseException)]
        if failures and len(failures) == len(ends):
            raise failures[0]
        return any(end is True for end in ends)


def notifier(settings: Settings) -> Notifier:
    """The channels that the settings name.

    Raises:
        InvalidInput: an address, a secret or a command cannot be read.
    """
    reference = settings.notify_secret
    # Followed even without a webhook, so that a wrong reference is reported at the start.
    secret = None if reference is None else signing_secret(reference.get_secret_value())
    channels: list[Notifier] = []
    if (url := settings.secret("notify_webhook")) is not None:
        channels.append(WebhookNotices(url, secret=secret))
    if settings.notify_command is not None:
        channels.append(CommandNotices(command_words(settings.notify_command)))
    if not channels:
        return NoNotices()
    return channels[0] if len(channels) == 1 else BothNotices(channels)


def command_words(text: str) -> tuple[str, ...]:
    """The words of a command: a JSON list, or quoted as in a shell, which is not run."""
    try:
        words: object = json.loads(text) if text.lstrip().startswith("[") else shlex.split(text)
    except ValueError as error:
        raise _unreadable_command(text) from error
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        return tuple(str(word) for word in words)
    raise _unreadable_command(text)


def worded(event: Event) -> Event:
    """The notice without secrets, and with `text`: two plain lines that chat services show."""
    run, gate = event.get("run", "?"), event.get("gate", "?")
    offered = event.get("choices")
    choices = [str(choice) for choice in offered] if isinstance(offered, list) else []
    text = (
        f"Run {run} waits for a person ({event.get('kind', 'gate')} {gate}): "
        f"{event.get('prompt', '')}\n"
        f"Answer with: {answer_command(f'{run}:{gate}', choices)}"
    )
    return _EVENT.validate_python(data_without_secrets({"text": text, **event}))


def _checked(address: str) -> httpx2.URL:
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise InvalidInput(
            "PERDURE_NOTIFY_WEBHOOK is not an address of the form https://host/path.",
            cure="Correct or unset it.",
        )
    return url


def _unreadable_command(text: str) -> InvalidInput:
    return InvalidInput(
        f"PERDURE_NOTIFY_COMMAND cannot be read: {text[:80]!r}.",
        cure='Write words, or a JSON list such as ["notify-send", "Perdure"].',
    )


def _last_words(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - SHOWN_BYTES))
    text = without_secrets(" ".join(said.read().decode("utf-8", "replace").split()))
    return f": {text}" if text else ""
