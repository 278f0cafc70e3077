"""Files that are handed over: what is protected from models is not read for them here either."""

import pytest

from perdure.adapters.verification.deliverables import Deliverables

SECRET = "canary-41aa"
NAMES = [".env", "deploy/prod.env", ".git/config", "sub/.git/config", "a/../.env", ".ENV", "./.env"]


@pytest.fixture
def root(tmp_path):
    for name in (".env", ".ENV", "deploy/prod.env", ".git/config", "sub/.git/config", "note.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SECRET if name != "note.txt" else "a note")
    (tmp_path / "a").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
async def test_a_protected_file_is_no_deliverable(root, name):
    inspector = Deliverables()
    assert await inspector.texts(str(root), [name]) == {}
    (fact,) = await inspector.facts(str(root), [name])
    assert fact.bytes == 0
    assert "cannot be handed over" in fact.problem


async def test_honest_files_are_read(root):
    inspector = Deliverables()
    assert await inspector.texts(str(root), ["note.txt", "none.txt"]) == {"note.txt": "a note"}
    here, gone = await inspector.facts(str(root), ["note.txt", "none.txt"])
    assert (here.exists, here.problem, gone.exists) == (True, "", False)


async def test_texts_in_json_lines_may_hold_separators(root):
    (root / "rows.jsonl").write_text('{"a": "x\u2028y"}\r\n\n["\x85"]\n', encoding="utf-8")
    (root / "torn.jsonl").write_text('{"a":\n1}\n')
    sound, torn = await Deliverables().facts(str(root), ["rows.jsonl", "torn.jsonl"])
    assert sound.problem == ""
    assert "does not parse" in torn.problem


@pytest.mark.parametrize("name", ["n" * 300, "docs/" + "é" * 130, "a/" * 2_000 + "f"])
async def test_a_name_that_no_file_can_have_is_a_file_that_is_not_there(root, name):
    (root / "links.md").write_text(f"see [it]({name})\n")
    missing, linking = await Deliverables().facts(str(root), [name, "links.md"])
    assert not missing.exists
    assert linking.problem.startswith("links to what is not there")
    assert await Deliverables().texts(str(root), [name]) == {}


CODE = """
```python
handlers[event](request)
```

~~~
[it](fenced.md)
~~~

`[it](quoted.md)`, ![a picture](plot.png), [elsewhere](https://example.com/x.md), [here](#top)

    [it](indented.md)
"""


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        pytest.param(CODE, [], id="code, pictures and addresses"),
        pytest.param("[it](my%20file.md) [it](<my file.md>)", [], id="spaces"),
        pytest.param("[it](note.txt?x=1) [it](note.txt#top) [it](?x=1)", [], id="queries"),
        pytest.param("[it](a%20b.md) [it](what?.md) [it](é.md)", [], id="names as they are"),
        pytest.param('[it](note.txt "A title") [it](lost.md "A title")', ["lost.md"], id="titles"),
        pytest.param("As he says.[^1]\n\n[^1]: Ibid.\n", [], id="footnotes"),
        pytest.param(
            "[it](a%00b) [it](%2Fetc/passwd) [it](..%2Fnote.txt)",
            ["a%00b", "%2Fetc/passwd", "..%2Fnote.txt"],
            id="nowhere",
        ),
        pytest.param(
            "[it](lost.md#top) [it](lost.md) [it](sub%20/lost.md)",
            ["lost.md", "sub%20/lost.md"],
            id="lost",
        ),
        pytest.param("word " * 4_000 + "[it](lost.md) `[it](quoted.md)`", ["lost.md"], id="long"),
    ],
)
async def test_links_lead_to_files(root, text, lost):
    for name in ("my file.md", "a%20b.md", "what?.md", "é.md"):
        (root / name).write_text("a note")
    (root / "links.md").write_text(text, encoding="utf-8")
    (fact,) = await Deliverables().facts(str(root), ["links.md"])
    assert fact.problem == (f"links to what is not there: {', '.join(lost)}" if lost else "")
