"""Installation commands: services, logs, doctor, garbage."""

import json

from inline_snapshot import snapshot

from perdure.domain.foundation.errors import NotFound
from perdure.interfaces.services import Check
from tests.interfaces.cli.memory import Installation


def test_up_tells_every_change_once_and_the_addresses(perdure: Installation) -> None:
    assert perdure.run("up") == 0
    assert perdure.out == snapshot("""\
worker: starting
worker: running
Temporal  127.0.0.1:7233 (namespace default)
Web UI    http://127.0.0.1:8233
folder    /home/me/.perdure
""")


def test_up_on_a_terminal_is_a_table(perdure: Installation) -> None:
    assert perdure.run("up", terminal=True) == 0
    assert "service" in perdure.out
    assert "running" in perdure.out


def test_up_detached_gives_the_shell_back(perdure: Installation) -> None:
    assert perdure.run("up", "--detach") == 0
    assert "http://127.0.0.1:8233" in perdure.out
    assert "perdure down" in perdure.err
    assert perdure.run("up", "--detach", "--json") == 0
    assert json.loads(perdure.out)["temporal_address"] == "127.0.0.1:7233"


def test_down(perdure: Installation) -> None:
    assert perdure.run("down") == 0
    assert perdure.out == "The services are stopped.\n"


def test_logs_cannot_steer_the_terminal(perdure: Installation) -> None:
    assert perdure.run("logs", "model", "--lines", "7", "--follow") == 0
    assert perdure.out == "model      7 True\n"
    assert perdure.run("logs", "--json") == 0
    told = json.loads(perdure.out)
    assert (told["type"], told["part"]) == ("log", "worker")


def test_worker_and_setup(perdure: Installation) -> None:
    assert perdure.run("worker") == 0
    assert "worker" in perdure.calls
    assert perdure.run("setup") == 0
    assert perdure.out == "The embedded model is installed.\n"


def test_codec_serves_the_pages_that_are_named(perdure: Installation) -> None:
    page = "http://127.0.0.1:9000"
    assert perdure.run("codec", "--port", "9001", "--origin", page, "--json") == 0
    assert perdure.calls == [f"codec 9001 ['{page}']"]
    assert json.loads(perdure.out) == {"type": "codec", "url": "http://127.0.0.1:9001"}


def test_doctor_says_what_to_do_and_fails_for_a_failed_check(perdure: Installation) -> None:
    assert perdure.run("doctor") == 0
    perdure.checks = (
        Check(name="disk", state="warning", found="1 GB free", cure="Run `perdure gc`."),
    )
    assert perdure.run("doctor") == 0
    assert "→ disk: Run `perdure gc`." in perdure.out
    perdure.checks = (Check(name="server", state="failed", found="away", cure="perdure up"),)
    assert perdure.run("doctor") == 3
    assert perdure.run("doctor", "--json") == 3
    assert json.loads(perdure.out)[0]["cure"] == "perdure up"


def test_gc(perdure: Installation) -> None:
    perdure.remembers = True
    assert perdure.run("gc", "--dry-run") == 0
    assert perdure.out == "would drop 2 blobs (1.0 MiB), kept 5\n"
    assert perdure.run("gc", "--json") == 0
    assert json.loads(perdure.out)["dry_run"] is False
    assert perdure.run("audit", "--json") == 0
    trail = [json.loads(line) for line in perdure.out.splitlines()]
    assert str(trail).count("'collected'") == 1, "a dry run collects nothing"


def test_move_blobs(perdure: Installation) -> None:
    assert perdure.run("move-blobs") == 0
    assert perdure.out == "moved 3 blobs (1.0 MiB)\n"
    assert perdure.run("move-blobs", "--json") == 0
    assert json.loads(perdure.out) == {"blobs": 3, "bytes": 1024 * 1024}


def test_an_error_of_the_services_has_its_exit_code(perdure: Installation) -> None:
    perdure.connect_error = NotFound("There is no home.", cure="Make one.")
    assert perdure.run("list") == 4
