"""Notices reach a real server and a real command, and failures say what to do."""

import asyncio
import json
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from inline_snapshot import snapshot
from pydantic import JsonValue
from waiting import eventually

from perdure.adapters.notifiers import (
    BothNotices,
    CommandNotices,
    NoNotices,
    WebhookNotices,
    command_words,
    notifier,
    worded,
)
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput, PerdureError, ServiceUnavailable

EVENT: dict[str, JsonValue] = {
    "run": "refine-bottle-1a",
    "gate": "g1",
    "kind": "escalation",
    "prompt": "Go on? $(touch x) 'quoted' \u00fc",
    "choices": ["continue", "stop"],
    "reminder": 0,
}
STORE = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"


class Receiver:
    """Answers with `status` and `headers` after `hold` is set, and keeps what came.

    The body of the answer is `said`; `unsaid` more bytes are announced and never sent, and the
    connection stays open until `drip` is set, or is cut if that is None.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.hold: threading.Event | None = None
        self.said = b""
        self.unsaid = 0
        self.drip: threading.Event | None = None
        self.came: list[tuple[str, dict[str, str], bytes]] = []


@contextmanager
def _serving(receiver: Receiver) -> Generator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.came.append((self.path, headers, body))
            if receiver.hold is not None:
                receiver.hold.wait(30)
            self.send_response(receiver.status)
            self.send_header("location", "/elsewhere")
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(receiver.said) + receiver.unsaid))
            self.end_headers()
            self.wfile.write(receiver.said)
            if receiver.drip is not None:
                self.wfile.flush()
                receiver.drip.wait(30)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook/s3cret"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            for event in (receiver.hold, receiver.drip):
                if event is not None:
                    event.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with _serving(made):
        yield made


async def test_a_webhook_gets_the_notice_as_json(receiver: Receiver) -> None:
    assert await WebhookNotices(receiver.url).notify(EVENT) is True
    ((path, headers, body),) = receiver.came
    assert path == "/hook/s3cret"
    assert headers["content-type"] == "application/json"
    assert headers["idempotency-key"] == "refine-bottle-1a/g1/0"
    assert json.loads(body) == worded(EVENT)
    assert {name: json.loads(body)[name] for name in EVENT} == EVENT


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, ServiceUnavailable),
        (503, ServiceUnavailable),
        (429, ServiceUnavailable),
        (408, ServiceUnavailable),
        (404, InvalidInput),
        (401, InvalidInput),
        (302, InvalidInput),
    ],
    ids=str,
)
async def test_a_refused_notice_names_host_and_status_but_no_path(
    receiver: Receiver, status: int, error: type[PerdureError]
) -> None:
    receiver.status = status
    with pytest.raises(PerdureError, match=rf"127\.0\.0\.1 answered {status}") as caught:
        await WebhookNotices(receiver.url).notify(EVENT)
    assert isinstance(caught.value, error)
    assert "s3cret" not in str(caught.value)
    assert len(receiver.came) == 1


async def test_a_webhook_that_is_away_can_be_tried_again(receiver: Receiver) -> None:
    away = Receiver()
    with _serving(away):
        pass
    with pytest.raises(ServiceUnavailable, match="not reached") as caught:
        await WebhookNotices(away.url).notify(EVENT)
    assert "s3cret" not in str(caught.value)


async def test_a_webhook_that_hangs_is_given_up(receiver: Receiver) -> None:
    receiver.hold = threading.Event()
    with pytest.raises(ServiceUnavailable, match="not reached"):
        await WebhookNotices(receiver.url, timeout_s=0.2).notify(EVENT)


@pytest.mark.parametrize("open_", [False, True], ids=["cut off", "never finished"])
async def test_a_notice_is_taken_with_the_status_whatever_becomes_of_the_body(
    receiver: Receiver, open_: bool
) -> None:
    receiver.said, receiver.unsaid = b"than", 100
    receiver.drip = threading.Event() if open_ else None
    assert await WebhookNotices(receiver.url, timeout_s=5).notify(EVENT) is True
    assert len(receiver.came) == 1


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://host/x", "https://", "file:///etc/passwd"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="PERDURE_NOTIFY_WEBHOOK"):
        WebhookNotices(url)


async def test_a_command_gets_the_notice_on_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "notice; rm -rf.json"
    assert await CommandNotices([sys.executable, "-c", STORE, str(file)]).notify(EVENT) is True
    assert json.loads(file.read_bytes()) == worded(EVENT)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


async def test_a_command_sees_no_secret_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "PERDURE_ENCRYPTION_KEY", "TEMPORAL_API_KEY"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("MAIL_HOST", "mail")
    script = "import os, sys, json; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    file = tmp_path / "environment.json"
    await CommandNotices([sys.executable, "-c", script, str(file)]).notify(EVENT)
    seen = json.loads(file.read_bytes())
    assert seen["MAIL_HOST"] == "mail"
    assert "s3cret" not in seen.values()


async def test_a_command_that_fails_is_quoted() -> None:
    script = "import sys; print('x' * 10_000, 'no route', file=sys.stderr); sys.exit(3)"
    with pytest.raises(ServiceUnavailable, match=r"ended with 3: .*no route") as caught:
        await CommandNotices([sys.executable, "-c", script]).notify(EVENT)
    assert len(str(caught.value)) < 700


async def test_a_command_that_hangs_is_given_up() -> None:
    script = "import signal; signal.pause()"
    with pytest.raises(ServiceUnavailable, match=r"took over 0\.2 s"):
        await CommandNotices([sys.executable, "-c", script], timeout_s=0.2).notify(EVENT)


async def test_a_cancelled_command_is_ended_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = (
        "import os, pathlib, signal, subprocess, sys;"
        "c = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
        "part = pathlib.Path(sys.argv[1] + '.part'); part.write_text(f'{os.getpid()} {c.pid}');"
        "part.rename(sys.argv[1]); signal.pause()"
    )
    notice = asyncio.create_task(
        CommandNotices([sys.executable, "-c", script, str(file)]).notify(EVENT)
    )
    await eventually(file.exists)
    started = [psutil.Process(int(pid)) for pid in file.read_text().split()]
    notice.cancel()
    with pytest.raises(asyncio.CancelledError):
        await notice
    await eventually(lambda: not any(is_alive(process) for process in started))


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_command_that_is_not_there_is_a_wrong_setting() -> None:
    with pytest.raises(InvalidInput, match="PERDURE_NOTIFY_COMMAND"):
        await CommandNotices(["/no/such/command"]).notify(EVENT)


async def test_a_command_may_ignore_its_input() -> None:
    big: dict[str, JsonValue] = {**EVENT, "prompt": "x" * 1_000_000}
    assert await CommandNotices([sys.executable, "-c", ""]).notify(big) is True


async def test_one_channel_that_took_it_is_enough(receiver: Receiver) -> None:
    broken = CommandNotices([sys.executable, "-c", "raise SystemExit(1)"])
    assert await BothNotices([broken, WebhookNotices(receiver.url)]).notify(EVENT) is True
    receiver.status = 500
    with pytest.raises(ServiceUnavailable, match="ended with 1"):
        await BothNotices([broken, WebhookNotices(receiver.url)]).notify(EVENT)


@pytest.mark.parametrize(
    ("webhook", "command", "kind"),
    [
        (None, None, NoNotices),
        ("https://h/x", None, WebhookNotices),
        (None, "cat", CommandNotices),
        ("https://h/x", "cat", BothNotices),
    ],
    ids=["none", "webhook", "command", "both"],
)
def test_settings_choose_the_channel(
    webhook: str | None, command: str | None, kind: type[object]
) -> None:
    settings = Settings.load(notify_webhook=webhook, notify_command=command)
    assert type(notifier(settings)) is kind


async def test_without_a_channel_nothing_is_delivered() -> None:
    assert await NoNotices().notify(EVENT) is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("notify-send Perdure", ("notify-send", "Perdure")),
        ("mail -s 'a run waits' me", ("mail", "-s", "a run waits", "me")),
        ('["a b", "$HOME"]', ("a b", "$HOME")),
        ("echo $HOME; ls", ("echo", "$HOME;", "ls")),
    ],
    ids=["words", "quotes", "json", "no shell"],
)
def test_a_command_is_read_as_words(text: str, words: tuple[str, ...]) -> None:
    assert command_words(text) == words


@pytest.mark.parametrize("text", ["", "  ", "[]", "[1]", '["a"', "'open"], ids=repr)
def test_a_command_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="PERDURE_NOTIFY_COMMAND"):
        command_words(text)


def test_the_words_for_people() -> None:
    assert worded(EVENT | {"prompt": "Go on?"})["text"] == snapshot("""\
Run refine-bottle-1a waits for a person (escalation g1): Go on?
Answer with: perdure answer refine-bottle-1a:g1 CHOICE  (continue, stop)\
""")
    assert worded({"run": "r", "gate": "g2", "prompt": "Why?"})["text"] == snapshot("""\
Run r waits for a person (gate g2): Why?
Answer with: perdure answer r:g2 "your answer"\
""")
