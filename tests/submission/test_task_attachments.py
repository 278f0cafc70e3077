"""Images and PDFs among the inputs of a task: read, looked at, or refused with a cure."""

import base64
from pathlib import Path

import pytest
from pictures import jpeg, pdf, png
from pydantic import JsonValue

from perdure.adapters.files.measures import measured
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.attachments import MOST_IN_A_CALL, Attachment, attachment_in
from perdure.domain.specs import Spec
from perdure.submission.loading import load_data, store
from perdure.submission.types import Submission, Surroundings
from tests.submission.task_files import Load
from tests.submission.test_task_references import OtherAddresses


def submitted(context: dict[str, JsonValue], *, folder: Path | None = None) -> Submission:
    """A task with these inputs."""
    around = Surroundings(folder=folder, default_model="claude-x", measure=measured)
    return load_data({"kind": "agent", "goal": "g", "context": context}, surroundings=around)


def attached(spec: Spec, name: str = "a") -> Attachment:
    """An input that is an image or PDF."""
    found = attachment_in(spec.context[name])
    assert found is not None
    return found


def inline(data: bytes, name: str | None = None) -> dict[str, JsonValue]:
    """Content in the task itself, with line breaks as `base64` writes them."""
    given: dict[str, JsonValue] = {"base64": base64.encodebytes(data).decode()}
    return given if name is None else {**given, "name": name}


@pytest.mark.parametrize("written", [{"file": "sub/chart.png"}, "file: sub/chart.png"])
def test_a_file_becomes_an_attachment(tmp_path: Path, written: JsonValue) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "chart.png").write_bytes(png(40, 30))
    found = submitted({"a": written}, folder=tmp_path)
    chart = attached(found.spec)
    assert (chart.name, chart.media_type, chart.width, chart.height) == (
        "chart.png",
        "image/png",
        40,
        30,
    )
    assert found.blobs[chart.ref] == png(40, 30)


def test_a_flag_names_one(home: Path, submit: Load) -> None:
    (home / "work" / "paper.pdf").write_bytes(pdf(2))
    assert attached(submit("sum it up", sets=("context.a=file:paper.pdf",)).spec).kind == "pdf"


def test_the_content_decides_and_not_the_name(tmp_path: Path) -> None:
    (tmp_path / "chart.txt").write_bytes(jpeg())
    assert attached(submitted({"a": "file: chart.txt"}, folder=tmp_path).spec).media_type == (
        "image/jpeg"
    )


def test_any_door_takes_content_in_the_task() -> None:
    found = submitted({"a": inline(pdf(3), "../../paper.pdf"), "b": inline(b"words")})
    paper = attached(found.spec)
    assert (paper.name, paper.pages) == ("paper.pdf", 3), "no folder of the client's stays"
    assert found.spec.context["b"] == "words"


def test_a_field_of_that_name_may_be_data() -> None:
    given: dict[str, JsonValue] = {"base64": "QQ==", "more": 1}
    assert submitted({"a": given, "b": {"base64": 5}}).spec.context == {
        "a": given,
        "b": {"base64": 5},
    }


async def test_a_store_may_name_it_otherwise() -> None:
    blobs = OtherAddresses()
    spec = await store(submitted({"a": inline(png(), "x.png")}), blobs)  # pyright: ignore[reportArgumentType]  (the part used)
    assert attached(spec).ref == "hmac:0"
    assert blobs.kept["hmac:0"] == png()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (inline(b"<svg/>", "chart.png"), "its name promises image/png, but the content is not"),
        (inline(png()[:-8], "chart.png"), "the end of the image/png file is missing"),
        (inline(b"\x89PNG\r\n\x1a\n", "chart.png"), "fetch or save it again"),
        (inline(png() + b"\0" * 4_000_000), "scale it down or compress it"),
        (inline(png(9_000, 1)), "an edge may have 8,000; scale it down"),
        (inline(pdf(101), "long.pdf"), "it has 101 pages, a PDF may have 100; split it"),
        (inline(pdf(password="x"), "shut.pdf"), "it is encrypted; save it without a password"),
        (inline(b"%PDF-1.7 nonsense %%EOF"), "cannot be read as a PDF"),
        (inline(b"\xff\xfe\x00"), "allowed: UTF-8 text, a PNG, JPEG, GIF or WebP image, or a PDF"),
        (inline(b"x" * 5_000_000), "allowed: a text of at most 4194304 bytes"),
        ({"base64": "no base64!"}, "context.a.base64: found"),
        ({"base64": "QQ="}, "allowed: base64 (Incorrect padding)"),
    ],
)
def test_what_no_model_can_be_shown_is_refused(given: dict[str, JsonValue], told: str) -> None:
    with pytest.raises(InvalidInput, match=r"The specification has 1 problem:") as caught:
        submitted({"a": given})
    assert told in caught.value.message
    assert "context.a" in caught.value.message
    assert len(caught.value.message) < 600, "content is not repeated in messages"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "scan.pdf").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(InvalidInput, match="a plain file of at most 16777216 bytes"):
        submitted({"a": "file: scan.pdf"}, folder=tmp_path)


def test_more_than_a_call_can_show_is_refused() -> None:
    many = {f"a{n}": inline(png(n + 1, 1)) for n in range(MOST_IN_A_CALL + 1)}
    with pytest.raises(InvalidInput, match="context: images and PDFs: 21 images and PDFs, 20 are"):
        submitted(dict(many))


def test_over_rest_the_way_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"as \{base64: …, name: …\}"):
        submitted({"a": {"file": "chart.png"}})
