"""Files of the start form: what they become, what is refused, and how they stay with the form."""

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from page_visit import Visitor, visitor
from pictures import gif, jpeg, pdf, png, webp
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.domain.llm.attachments import MOST_IN_A_CALL
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.start.files import (
    NAME_CHARACTERS,
    as_inputs,
    file_name,
    input_name,
    kept_values,
    most_bytes,
)

LIMIT = 700_000


@pytest.mark.parametrize(
    ("given", "shown", "becomes"),
    [
        ("Chart 1.png", "Chart 1.png", "chart_1"),
        ("../../etc/passwd.png", "passwd.png", "passwd"),
        (r"C:\pictures\a.gif", "a.gif", "a"),
        ("\u202egnp.exe", "<U+202E>gnp.exe", "u_202e_gnp"),
        ('"><script>alert(1)</script>.png', "script>.png", "script"),
        ("日本.png", "日本.png", "file"),
        (".png", ".png", "png"),
        ("x" * 300 + ".png", "x" * (NAME_CHARACTERS - 4) + ".png", "x" * 40),
    ],
)
def test_a_name_is_bare_and_harmless(given: str, shown: str, becomes: str) -> None:
    assert file_name(given) == shown
    assert input_name(file_name(given), ()) == becomes


@given(st.text(max_size=400))
@example("0\n0")
def test_any_name_becomes_a_plain_input(given: str) -> None:
    called = file_name(given)
    assert len(called) <= NAME_CHARACTERS
    assert not {"/", "\\", "\n", "\x1b"} & set(called)
    assert re.fullmatch(r"[a-z0-9_]{1,40}", input_name(called, ()))


def test_two_files_of_one_name_are_two_inputs() -> None:
    files = [("a.png", png()), ("a.gif", gif()), ("a.md", b"# text")]
    found = as_inputs(files, taken=("a",), limit=LIMIT)
    assert (list(found.contents), found.texts) == (["a_2", "a_3"], {"a_4": "# text"})


@pytest.mark.parametrize("data", [png(), gif(), jpeg(), webp(), pdf()])
def test_each_type_is_known_by_its_content(data: bytes) -> None:
    assert list(as_inputs([("no-ending", data)], taken=(), limit=LIMIT).contents) == ["no_ending"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([("a.png", b"MZ\x90\0 a program")], "a.png: its name promises image/png, but"),
        ([("a.exe", b"MZ\x90\0 a program")], "a.exe: it is neither UTF-8 text nor a PNG"),
        ([("a.svg", b"\xff\xfe<svg>")], "a.svg: it is neither UTF-8 text nor a PNG"),
        ([("a.png", png()[:-8])], "a.png: the end of the image/png file is missing"),
        ([("a.txt", b" \n")], "a.txt: it is empty"),
        ([("a.txt", b"x" * (LIMIT + 1))], "a form takes 684 KB; choose fewer or smaller"),
        ([(f"{n}.png", png()) for n in range(MOST_IN_A_CALL + 1)], "20 are allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_input_is_named(files: list[tuple[str, bytes]], told: str) -> None:
    with pytest.raises(ApiProblem) as caught:
        as_inputs(files, taken=(), limit=LIMIT)
    assert told in "\n".join(caught.value.problems)


def test_every_wrong_file_is_named_at_once() -> None:
    files = [("a.exe", b"\xff"), ("b.png", b"text"), ("c.png", png())]
    with pytest.raises(ApiProblem) as caught:
        as_inputs(files, taken=(), limit=LIMIT)
    assert [line.split(":")[1] for line in caught.value.problems] == [" a.exe", " b.png"]


@pytest.mark.parametrize("told", ["", "{}", "[]", '{"ref": 1}', '{"ref": "x", "more": 1}'])
def test_what_a_form_carries_is_read_with_care(told: str) -> None:
    with pytest.raises(ApiProblem):
        kept_values({"a": told})


SCRIPT: dict[str, Any] = {
    "replies": [{"when": {"sees": "image/png"}, "text": "It rises."}, {"text": "I see nothing."}],
    "attachments": ["image", "pdf"],
}
FORM = {"kind": "agent", "goal": "Read it.", "cost_usd": "0.10"}


@pytest.fixture
async def seeing(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SCRIPT) as site,
        site.worker(),
        served(site) as rest,
    ):
        yield rest


Upload = tuple[str, bytes, str]


async def _sent(
    person: Visitor, fields: dict[str, str], files: list[Upload], *, key: str | None = None
) -> Any:
    own = await person.form_key("/new") if key is None else key
    return await person.client.post(
        "/new",
        data={**fields, "form_key": own},
        files=[("files", one) for one in files],
        headers={"origin": person.url, "sec-fetch-site": "same-origin"},
    )


def _carried(page: str) -> dict[str, str]:
    found = re.findall(r'name="(kept:\w+)" value="([^"]*)"', page)
    return {name: html.unescape(told) for name, told in found}


async def test_a_picture_is_looked_over_and_then_shown_to_the_model(seeing: Rest) -> None:
    async with visitor(seeing, await seeing.token("operate")) as person:
        assert 'type="file" name="files" multiple' in await person.see("/new")
        files = [
            ("<b>chart</b>.png", png(40, 30), "application/x-evil"),
            ("notes.md", b"Mind the <i>axis</i>.", "text/markdown"),
            ("", b"", "application/octet-stream"),
        ]
        looked = await _sent(person, FORM, files)
        assert looked.status_code == 200, looked.text
        assert "<b>chart" not in looked.text
        assert "image b&gt;.png, image/png" in looked.text
        assert "Mind the &lt;i&gt;axis&lt;/i&gt;." in looked.text
        carried = _carried(looked.text)
        assert json.loads(carried["kept:b"])["bytes"] == len(png(40, 30))
        notes = {"input:notes": "Mind the axis."}
        begun = await _sent(person, FORM | carried | notes | {"start": "yes"}, [])
        assert begun.status_code == 303, begun.text
        run = begun.headers["location"].rpartition("/")[2]
        result = await seeing.ended(run)
        assert result["output"] == "It rises."


async def test_a_picture_that_is_unticked_is_gone(seeing: Rest) -> None:
    async with visitor(seeing, await seeing.token("operate")) as person:
        looked = await _sent(person, FORM, [("a.png", png(), "image/png")])
        assert "kept:a" in _carried(looked.text)
        again = await _sent(person, FORM, [("b.png", png(), "image/png")])
        assert set(_carried(again.text)) == {"kept:b"}


async def test_what_is_refused_leaves_the_form_and_says_to_choose_again(seeing: Rest) -> None:
    async with visitor(seeing, await seeing.token("operate")) as person:
        files = [("virus.png", b"MZ\x90\0", "image/png")]
        answer = await _sent(person, FORM | {"label": "mine"}, files)
        assert answer.status_code == 422
        assert "files: virus.png: its name promises image/png" in answer.text
        assert "choose virus.png again" in answer.text
        assert 'value="mine"' in answer.text
        wrong = FORM | {"max_iterations": "many"}
        answer = await _sent(person, wrong, [("a.png", png(), "image/png")])
        assert answer.status_code == 422
        assert "choose a.png again" in answer.text
        both = [("a.png", png(), "image/png"), ("b.txt", b"text", "text/plain")]
        answer = await _sent(person, wrong, both)
        assert "choose a.png again" in answer.text, "the text stands in the form"


async def test_what_is_too_large_is_refused(seeing: Rest) -> None:
    body = seeing.api.rules.body_bytes
    async with visitor(seeing, await seeing.token("operate")) as person:
        large = await _sent(person, FORM, [("a.txt", b"x" * (body + 1), "text/plain")])
        assert large.status_code == 413
        some = await _sent(person, FORM, [("a.txt", b"x" * (most_bytes(body) + 1), "text/plain")])
        assert some.status_code == 422
        assert "PERDURE_API_BODY_BYTES" in some.text


async def test_a_form_of_another_session_or_site_brings_no_files(seeing: Rest) -> None:
    files = [("a.png", png(), "image/png")]
    async with visitor(seeing, await seeing.token("operate")) as person:
        for key in ("", "0" * 64):
            assert (await _sent(person, FORM, files, key=key)).status_code == 403
        key = await person.form_key("/new")
        foreign = await person.client.post(
            "/new",
            data={**FORM, "form_key": key},
            files=[("files", files[0])],
            headers={"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
        )
        assert foreign.status_code == 403
    async with visitor(seeing, await seeing.token("read")) as person:
        assert (await _sent(person, FORM, files)).status_code == 403
