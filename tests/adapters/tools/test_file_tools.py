"""fs.read, fs.list, fs.search, fs.write, fs.edit, artifact.read."""

import hashlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.adapters.files.rooted_files import WRITE_CAP
from perdure.adapters.tools.write_files import fs_edit
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.tools.definitions import OUTPUT_CAP_BYTES, ToolGrant
from perdure.extending.tool_decorator import ToolContext


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


async def test_read_says_what_is_left_and_the_hash(root, call):
    (root / "a.txt").write_text("".join(f"line {n}\n" for n in range(10)))
    output = await call("fs.read", path="a.txt", offset=2, limit=3)
    assert output.text.startswith("line 2\nline 3\nline 4\n[a.txt: lines 3-5 of 10; 5 lines left")
    assert '"offset": 5' in output.text
    assert hashlib.sha256((root / "a.txt").read_bytes()).hexdigest() in output.text


async def test_read_stays_within_the_output_cap(root, call):
    (root / "wide.txt").write_text("x" * 1000 + "\n" + "y" * 200_000 + "\nend\n")
    output = await call("fs.read", path="wide.txt")
    assert "lines 1-1 of 3" in output.text
    output = await call("fs.read", path="wide.txt", offset=1)
    assert len(output.text) < OUTPUT_CAP_BYTES + 500
    assert "was cut" in output.text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("absent.txt", "not_found"),
        ("binary", "binary"),
        ("latin", "binary"),
        ("folder", "not_a_file"),
        ("../ws/a", "path"),
        ("/etc/passwd", "path"),
        (".env", "protected"),
        ("link", "link"),
        (".", "not_a_file"),
    ],
)
async def test_read_refuses(root, call, path, code):
    (root / "binary").write_bytes(b"\0\1")
    (root / "latin").write_bytes(b"gr\xf6\xdfe")
    (root / "folder").mkdir()
    (root / ".env").write_text("KEY=canary")
    (root / "link").symlink_to("/etc/passwd")
    output = await call("fs.read", path=path)
    assert (output.outcome, output.code) == ("error", code)
    assert "canary" not in output.text
    assert "root:" not in output.text


async def test_list(root, call):
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("1")
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "link").symlink_to("src")
    flat = await call("fs.list")
    assert flat.text.splitlines() == ["link@", "node_modules/", "src/"]
    deep = await call("fs.list", recursive=True)
    assert deep.text.splitlines() == ["link@", "src/", "src/a.py 1"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "a.c"}, ["one.py:2: a.c"]),
        (
            {"pattern": "a.c", "regex": True},
            ["one.py:1: abc", "one.py:2: a.c", "sub/two.md:1: abc"],
        ),
        ({"pattern": "ABC", "ignore_case": True}, ["one.py:1: abc", "sub/two.md:1: abc"]),
        ({"pattern": "abc", "glob": "*.md"}, ["sub/two.md:1: abc"]),
        ({"pattern": "abc", "glob": "sub/**/*.md"}, ["sub/two.md:1: abc"]),
        ({"pattern": "abc", "path": "sub"}, ["sub/two.md:1: abc"]),
        ({"pattern": "abc", "path": "one.py"}, ["one.py:1: abc"]),
        ({"pattern": "(a+)+$", "regex": True, "path": "evil"}, []),
        ({"pattern": "secret"}, []),
    ],
)
async def test_search(root, call, arguments, found):
    (root / "one.py").write_text("abc\na.c\n")
    (root / "sub").mkdir()
    (root / "sub" / "two.md").write_text("abc")
    (root / "evil").write_text("a" * 5000 + "!")
    (root / ".env").write_text("secret")
    output = await call("fs.search", **arguments)
    assert output.outcome == "ok"
    assert output.text.splitlines()[:-1] == found


@pytest.mark.parametrize("pattern", ["(?=a)", "(a)\\1", "(", "", "a" * 2000])
async def test_search_refuses_patterns(root, call, pattern):
    output = await call("fs.search", pattern=pattern, regex=True)
    assert (output.outcome, output.code) == ("error", "pattern")


async def test_write_is_repeatable_and_checks_the_hash(root, call):
    first = {"path": "a/b.txt", "content": "one", "expected_hash": "absent"}
    assert (await call("fs.write", **first)).outcome == "ok"
    assert (await call("fs.write", **first)).outcome == "ok"
    stale = await call("fs.write", path="a/b.txt", content="two", expected_hash="absent")
    assert (stale.outcome, stale.code) == ("error", "stale")
    assert sha("one") in stale.text
    second = {"path": "a/b.txt", "content": "two", "expected_hash": f"sha256:{sha('one')}"}
    assert (await call("fs.write", **second)).outcome == "ok"
    assert (await call("fs.write", **second)).outcome == "ok"
    assert (root / "a" / "b.txt").read_text() == "two"
    assert os.listdir(root / "a") == ["b.txt"]


async def test_write_keeps_the_mode(root, call):
    (root / "run.sh").write_text("one")
    (root / "run.sh").chmod(0o755)
    await call("fs.write", path="run.sh", content="two", expected_hash=sha("one"))
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (".git/hooks/pre-commit", "protected"),
        (".github/workflows/x.yml", "protected"),
        (".env", "protected"),
        ("../out", "path"),
        ("/tmp/out", "path"),
        ("link", "link"),
        ("linked/new", "link"),
        ("hooks/pre-commit", "protected"),
        ("secret", "protected"),
        ("twin", "link"),
        ("pipe", "not_a_file"),
        (".", "not_a_file"),
        ("folder", "not_a_file"),
    ],
)
async def test_write_refuses(root, call, tmp_path, path, code):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("old")
    (root / "link").symlink_to(outside / "file")
    (root / "linked").symlink_to(outside)
    (root / "folder").mkdir()
    (root / "hooks").symlink_to(".git/hooks")
    (root / "secret").symlink_to("folder/../.env")
    os.link(outside / "file", root / "twin")
    os.mkfifo(root / "pipe")
    output = await call("fs.write", path=path, content="new", expected_hash=sha("old"))
    assert (output.outcome, output.code) == ("error", code)
    assert [(item.name, item.read_text()) for item in outside.iterdir()] == [("file", "old")]


async def test_write_cap(root, call):
    output = await call(
        "fs.write", path="big", content="x" * (WRITE_CAP + 1), expected_hash="absent"
    )
    assert output.code == "too_large"
    assert list(root.iterdir()) == []


async def test_edit(root, call):
    (root / "a").write_text("one two two")
    before = sha("one two two")
    twice = await call("fs.edit", path="a", old="two", new="2", expected_hash=before)
    assert twice.code == "not_unique"
    missing = await call("fs.edit", path="a", old="three", new="3", expected_hash=before)
    assert missing.code == "no_match"
    edit = {"path": "a", "old": "one", "new": "1", "expected_hash": before}
    assert (await call("fs.edit", **edit)).outcome == "ok"
    assert (await call("fs.edit", **edit)).text.startswith("a already has this content")
    assert (root / "a").read_text() == "1 two two"
    other = await call("fs.edit", path="a", old="1", new="x", expected_hash=before)
    assert other.code == "stale"
    absent = await call("fs.edit", path="new/b", old="1", new="x", expected_hash=before)
    assert absent.code == "not_found"
    assert not (root / "new").exists()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.text("ab\n", max_size=12), old=st.text("ab\n", min_size=1, max_size=4),
    new=st.text("abc", max_size=4),
)  # fmt: skip
def test_an_edit_that_was_made_may_be_made_again(tmp_path, before, old, new):
    (tmp_path / "f").write_text(before)
    context = ToolContext(
        run="r",
        call_id="c",
        idempotency_key="k",
        grant=ToolGrant(root=str(tmp_path), writable=True),
    )

    def edit():
        return fs_edit(path="f", old=old, new=new, expected_hash=sha(before), context=context)

    try:
        edit()
    except ToolFailure:
        assert before.count(old) != 1
        assert (tmp_path / "f").read_text() == before
        return
    after = (tmp_path / "f").read_text()
    assert after == before.replace(old, new)
    edit()
    assert (tmp_path / "f").read_text() == after


async def test_artifact_read(blobs, call):
    blobs.content["sha256:long"] = ("ä" * 100).encode()
    blobs.content["sha256:raw"] = b"\xff\xfe"
    output = await call("artifact.read", ref="sha256:long", offset=10, limit=20)
    assert (
        output.text == "ä" * 20 + '\n[characters 10-30 of 100; 70 left, read on with "offset": 30]'
    )
    assert (await call("artifact.read", ref="sha256:none")).code == "not_found"
    assert (await call("artifact.read", ref="sha256:raw")).code == "binary"
    assert (await call("artifact.read", ref="sha256:long", offset=101)).code == "range"


async def test_links_that_stay_inside_are_worked_through(root, call):
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("one")
    (root / "way").symlink_to("src")
    (root / "same").symlink_to("src/a.py")
    assert (await call("fs.read", path="way/a.py")).text.startswith("one")
    assert "a.py" in (await call("fs.list", path="way")).text
    assert "src/a.py:1: one" in (await call("fs.search", pattern="one", path="way")).text
    await call("fs.write", path="same", content="two", expected_hash=sha("one"))
    await call("fs.edit", path="way/a.py", old="two", new="three", expected_hash=sha("two"))
    await call("fs.write", path="way/b.py", content="new", expected_hash="absent")
    assert (root / "src" / "a.py").read_text() == "three"
    assert (root / "src" / "b.py").read_text() == "new"
    assert (root / "same").is_symlink()
    assert (root / "way").is_symlink()
