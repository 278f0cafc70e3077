"""`perdure artifact`: text as text, and everything else as its bytes, wherever it goes."""

import base64
import json
import re
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from perdure.interfaces.cli.output import Output
from perdure.interfaces.contents import described, text_in, type_of
from tests.interfaces.cli.memory import Installation, Pipe
from tests.interfaces.cli.samples import RUN
from tests.support.pictures import pdf, png

REF = f"sha256:{7:064x}"
OTHER = bytes(range(256))


@pytest.fixture
def perdure(tmp_path: Path) -> Installation:
    """A command line over a run that kept a picture."""
    made = Installation(folder=tmp_path)
    made.blobs.texts[REF] = ""
    made.blobs.files[REF] = png(40, 30)
    return made


@pytest.mark.parametrize(
    ("data", "media_type", "is_text"),
    [
        (b"", "text/plain", True),
        ("déjà vu\n".encode(), "text/plain", True),
        (png(), "image/png", False),
        (pdf(), "application/pdf", False),
        (b"%PDF-1.4 all of it ASCII %%EOF", "application/pdf", False),
        (b"UTF-8 \0 with a zero byte", "application/octet-stream", False),
        ("déjà vu".encode("latin-1"), "application/octet-stream", False),
        (OTHER, "application/octet-stream", False),
    ],
)
def test_bytes_are_known_by_their_content(data: bytes, media_type: str, is_text: bool) -> None:
    assert (type_of(data), text_in(data) is not None) == (media_type, is_text)
    assert described(data).startswith(f"{media_type}, ")


@pytest.mark.parametrize("data", [png(40, 30), pdf(), OTHER])
def test_a_pipe_gets_the_very_bytes(perdure: Installation, data: bytes) -> None:
    perdure.blobs.files[REF] = data
    assert perdure.run("artifact", RUN, REF) == 0
    assert isinstance(perdure.stdout, Pipe)
    assert perdure.stdout.buffer.getvalue() == data
    assert perdure.out == ""


def test_a_terminal_is_told_type_size_and_the_command_that_writes_it(perdure: Installation) -> None:
    assert perdure.run("artifact", RUN, REF, terminal=True) == 0
    told = " ".join(re.sub("\x1b\\[[0-9;]*m", "", perdure.out).split())
    assert f"image/png, {len(png(40, 30))} bytes: a terminal cannot show it." in told
    assert f"perdure artifact {RUN} {REF} --output FILE" in told
    assert "\ufffd" not in perdure.out


@pytest.mark.parametrize("data", [png(40, 30), OTHER, b"a text without a last line end"])
@pytest.mark.parametrize("flag", ["--output", "--to"])
def test_a_file_gets_the_very_bytes(
    perdure: Installation, tmp_path: Path, data: bytes, flag: str
) -> None:
    perdure.blobs.files[REF] = data
    assert perdure.run("artifact", RUN, REF, flag, "out/chart.png", terminal=True) == 0
    assert (tmp_path / "out" / "chart.png").read_bytes() == data
    assert "chart.png" in "".join(perdure.out.split())  # a long path is wrapped


def test_a_file_that_is_there_stays_unless_it_is_forced(
    perdure: Installation, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("mine")
    assert perdure.run("artifact", RUN, REF, "--output", "kept") == 5
    assert "exists already" in perdure.err
    assert "--force" in perdure.err
    assert (tmp_path / "kept").read_text() == "mine"
    assert perdure.run("artifact", RUN, REF, "--output", "kept", "--force", "--json") == 0
    assert json.loads(perdure.out)["path"] == str(tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == png(40, 30)


@pytest.mark.parametrize(
    ("ref", "code", "said"),
    [
        ("sha256:00", 2, "is the beginning of"),
        ("0000", 2, "is the beginning of"),
        ("f" * 12, 4, "names no reference"),
        ("", 4, "names no reference"),
        ("artifact-", 4, "no artifact that begins"),
    ],
)
def test_a_beginning_that_means_no_one_reference_is_explained(
    perdure: Installation, ref: str, code: int, said: str
) -> None:
    perdure.remembers = True
    assert perdure.run("artifact", RUN, ref) == code
    assert said in perdure.err


def test_a_place_that_takes_no_file_is_named(perdure: Installation, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert perdure.run("artifact", RUN, REF, "--output", "folder", "--force") == 5
    assert f"{tmp_path / 'folder'} cannot be written" in perdure.err


def test_programs_get_the_bytes_as_base64_and_texts_as_text(perdure: Installation) -> None:
    assert perdure.run("artifact", RUN, REF, "--json") == 0
    told = json.loads(perdure.out)
    assert base64.b64decode(told["base64"]) == png(40, 30)
    assert (told["media_type"], told["bytes"]) == ("image/png", len(png(40, 30)))
    assert "text" not in told
    perdure.blobs.files[REF] = b"plain"
    assert perdure.run("artifact", RUN, REF, "--json") == 0
    told = json.loads(perdure.out)
    assert (told["text"], told["media_type"], told["bytes"]) == ("plain", "text/plain", 5)
    assert "base64" not in told


def test_bytes_come_behind_the_text_that_was_written_before() -> None:
    under = BytesIO()
    output = Output(TextIOWrapper(under, encoding="utf-8", newline="\r\n"), StringIO())
    output.go_on("first\n")
    output.raw_bytes(b"\n\x89\xff")
    assert under.getvalue() == b"first\r\n\n\x89\xff"
