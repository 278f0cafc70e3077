"""The commands do what their names promise; where the machine has the real one, it agrees."""

import os
import shutil
import subprocess

import pytest

from perdure.adapters.tools.shell.grep import basic_to_extended

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "ws"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "a.txt").write_text("banana 3\napple 10\ncherry 2\napple 10\n")
    (folder / "b.txt").write_text("banana 3\nApple 10\ncherry 2\nend\n")
    (folder / "table.tsv").write_text("one\ttwo\tthree\n1\t2\t3\nplain\n")
    (folder / "src" / "main.py").write_text("import os\n\n\ndef main():\n    return 1 + 1\n")
    (folder / "src" / "deep" / "x.py").write_text("x = 'main'\n")
    (folder / "docs" / "guide.md").write_text("# Guide\n\nCall main() or a|b.\n")
    (folder / "empty").write_text("")
    return folder


SAME_AS_REAL = [
    "cat a.txt", "cat a.txt b.txt", "cat -n a.txt", "head -n 2 a.txt", "head -2 a.txt",
    "head -n2 a.txt", "head --lines=2 a.txt", "head a.txt b.txt", "tail -n 1 a.txt",
    "tail -n +3 a.txt", "tail -1 a.txt", "head -c 3 a.txt", "tail -c 4 a.txt", "sort a.txt",
    "sort -r a.txt", "sort -u a.txt", "sort -k 2 -n a.txt", "sort -n -k2 a.txt",
    "sort -t ' ' -k2,2n a.txt", "sort a.txt b.txt", "uniq a.txt", "cut -f 2 table.tsv",
    "cut -f1,3 table.tsv", "cut -f 2- table.tsv", "cut -s -f1 table.tsv", "cut -d ' ' -f 1 a.txt",
    "cut -c 1-3 a.txt", "cut -c-2 a.txt", "diff -q a.txt b.txt",
    "diff -i -u --label x --label y a.txt a.txt", "grep apple a.txt", "grep -n apple a.txt b.txt",
    "grep -i apple b.txt", "grep -c apple a.txt b.txt", "grep -v apple a.txt",
    "grep -l apple a.txt b.txt", "grep -L apple a.txt b.txt", "grep -w main src/main.py",
    "grep -x end b.txt", "grep -o 'an' a.txt", "grep -E 'apple|cherry' a.txt",
    "grep 'apple\\|cherry' a.txt", "grep 'a|b' docs/guide.md", "grep -F 'main()' docs/guide.md",
    "grep 'main()' docs/guide.md", "grep -A1 banana a.txt", "grep -B 1 cherry a.txt",
    "grep -n -C1 cherry a.txt", "grep -1 cherry a.txt", "grep -m1 apple a.txt",
    "grep -e banana -e cherry a.txt", "grep -h apple a.txt b.txt", "grep -H apple a.txt",
    "grep 'o[^n]' table.tsv", "grep -n '^$' src/main.py", "grep -c '' empty",
    "grep '[(+]' src/main.py", "grep 'n\\{2\\}\\|an\\+' a.txt", "grep -nE '^(def|x) ' src/main.py",
]  # fmt: skip
SAME_LINES = [
    "find . -name '*.py'", "find src -type d", "find . -type f -empty",
    "find . -maxdepth 1 -type f", "find . -mindepth 2 -name '*.md'", "find . -iname 'A.TXT'",
    "find . -size +30c -type f", "find . -not -name '*.txt' -type f",
    "find . -name '*.md' -o -name '*.tsv'", "find src -path '*deep*'", "find docs/guide.md",
    "find src -path 'src/*/*.py'", "find src -path 'src/*.py'", "find src -path 'src/**/deep'",
    "find src -path 'src?*'", "find . -path './*/*.py'",
    "find . -size -1k -type f", "grep -rn main .", "grep -rl main src docs",
    "grep -r --include='*.py' main .", "grep -r --exclude='*.py' main .",
    "grep -r --exclude-dir=deep main .",
]  # fmt: skip


def real(root, command):
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=root,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("command", SAME_AS_REAL)
async def test_same_output_as_the_real_command(root, call, command):
    output = await call("shell.readonly", command=command)
    assert (output.outcome, output.code) == ("ok", ""), output.text
    expected = real(root, command).rstrip("\n")
    assert output.text.rstrip("\n") == (expected or "(no output)")


@pytest.mark.parametrize("command", SAME_LINES)
async def test_same_lines_as_the_real_command(root, call, command):
    output = await call("shell.readonly", command=command)
    assert output.outcome == "ok", output.text
    expected = sorted(line.removeprefix("./") for line in real(root, command).splitlines())
    assert sorted(output.text.splitlines()) == (expected or ["(no output)"])


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("wc -l a.txt", "4 a.txt"),
        ("wc a.txt b.txt", "4 8 36 a.txt\n4 7 31 b.txt\n8 15 67 total"),
        ("ls", "a.txt\nb.txt\ndocs/\nempty\nsrc/\ntable.tsv"),
        ("ls src docs", "src:\ndeep/\nmain.py\ndocs:\nguide.md"),
        ("ls -d src", "src/"),
        ("uniq -c a.txt", "      1 banana 3\n      1 apple 10\n      1 cherry 2\n      1 apple 10"),
        ("grep nothing a.txt", "(no output)"),
    ],
)
async def test_own_output(call, command, text):
    output = await call("shell.readonly", command=command)
    assert output.text == text


async def test_stat_and_long_listing(call):
    assert "36 bytes" in (await call("shell.readonly", command="stat a.txt")).text
    assert "-rw" in (await call("shell.readonly", command="ls -la")).text


async def test_unified_diff(root, call):
    output = await call("shell.readonly", command="diff -u a.txt b.txt")
    assert "-apple 10\n+Apple 10" in output.text


async def test_a_page_that_never_ends_is_cut(root, call):
    (root / "long").write_text("line of text\n" * 200_000)
    output = await call("shell.readonly", command="cat long")
    assert output.outcome == "ok"
    assert "stopped: the output is longer" in output.text
    assert len(output.text) < 1_100_000


async def test_a_catastrophic_pattern_is_harmless(root, call):
    (root / "evil").write_text("a" * 20_000 + "!\n")
    output = await call("shell.readonly", command="grep -E '(a+)+$' evil")
    assert output.text == "(no output)"


@pytest.mark.parametrize(
    ("basic", "extended"),
    [
        ("a|b", "a\\|b"), ("a\\|b", "a|b"), ("\\(a\\)", "(a)"), ("(a)", "\\(a\\)"), ("a\\+", "a+"),
        ("a{2}", "a\\{2\\}"), ("[(|]", "[(|]"), ("[]a]b+", "[]a]b\\+"), ("[^]a]", "[^]a]"),
        ("a\\.", "a\\."),
    ],
)  # fmt: skip
def test_basic_expressions(basic, extended):
    assert basic_to_extended(basic) == extended


@pytest.fixture
def repository(root):
    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=a@example.org", *arguments],
            cwd=root, check=True, capture_output=True,
            env={**ENVIRONMENT, "HOME": str(root), "GIT_CONFIG_GLOBAL": os.devnull},
        )  # fmt: skip

    git("init", "-q", "-b", "main")
    (root / ".env").write_text("KEY=canary\n")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    (root / "a.txt").write_text("changed\n")
    (root / ".env").write_text("KEY=canary2\n")
    git("commit", "-q", "-am", "second")
    (root / "b.txt").write_text("work in progress\n")
    (root / "new.txt").write_text("new\n")
    return root


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("git status", "modified:   b.txt"),
        ("git status --short", "?? new.txt"),
        ("git status --porcelain=v1", " M b.txt"),
        ("git log --oneline", "second"),
        ("git log -1 --format='%an %s'", "Ann second"),
        ("git log --pretty=format:%an --max-count=1", "Ann"),
        ("git log -p -- a.txt", "+changed"),
        ("git log --stat HEAD~1..HEAD", "a.txt"),
        ("git log --follow a.txt", "first"),
        ("git log --follow -p a.txt", "+changed"),
        ("git log --follow -U1 -n 1 --oneline -- a.txt", "+changed"),
        ("git log --author=Ann --since=2000-01-01 --oneline", "first"),
        ("git diff", "+work in progress"),
        ("git diff HEAD", "+work in progress"),
        ("git diff HEAD~1 HEAD -- a.txt", "+changed"),
        ("git diff --name-only HEAD~1", "a.txt"),
        ("git diff --stat", "b.txt"),
        ("git show", "second"),
        ("git show HEAD~1 --stat", "main.py"),
        ("git show HEAD:a.txt", "changed"),
        ("git show HEAD:src/main.py", "def main"),
        ("git blame a.txt", "changed"),
        ("git blame -L 1,1 HEAD -- a.txt", "changed"),
        ("git branch", "main"),
        ("git branch --show-current", "main"),
        ("git branch -a --contains HEAD", "main"),
        ("git ls-files", "src/main.py"),
        ("git ls-files --others --exclude-standard", "new.txt"),
    ],
)
async def test_git(repository, call, command, part):
    output = await call("shell.readonly", command=command)
    assert output.outcome == "ok", output.text
    assert part in output.text
    assert "canary" not in output.text


@pytest.mark.parametrize(
    "command",
    [
        "git log -p",
        "git log -U0",
        "git log --unified=3 --oneline",
        "git show",
        "git diff HEAD~1",
        "git show HEAD~1",
    ],
)
async def test_git_shows_no_dotenv_content(repository, call, command):
    output = await call("shell.readonly", command=command)
    assert output.outcome == "ok", output.text
    assert "+" in output.text
    assert "canary" not in output.text


@pytest.fixture
def renamed(repository):
    """A file that was once a dotenv file, and one that was always open."""

    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=a@example.org", *arguments],
            cwd=repository, check=True, capture_output=True,
            env={**ENVIRONMENT, "HOME": str(repository), "GIT_CONFIG_GLOBAL": os.devnull},
        )  # fmt: skip

    git("mv", ".env", "conf")
    git("mv", "a.txt", "c.txt")
    git("commit", "-q", "-m", "third")
    for name in ("conf", "c.txt"):
        (repository / name).write_text("all new\n")
    git("commit", "-q", "-am", "fourth")
    return repository


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("git log --follow -p c.txt", "", "rename from a.txt"),
        ("git log --follow --oneline conf", "", "first"),
        ("git log --follow -p conf", "protected", "would show .env"),
        ("git log --follow -p -n 1 conf", "protected", "would show .env"),
        ("git log --follow -U0 -M --author=Ann conf", "protected", "would show .env"),
        ("git log --follow -p --diff-filter=M conf", "protected", "would show .env"),
        ("git log --follow -p .", "protected", "would show .env"),
        ("git log --follow -p", "failed", "one pathspec"),
        ("git log --follow -p c.txt conf", "failed", "one pathspec"),
        ("git log --follow -S canary conf", "refused", "takes no -S"),
        ("git log --follow -p --reverse conf", "refused", "--reverse"),
        ("git log --follow -p --graph conf", "refused", "--graph"),
    ],
)
async def test_git_follows_no_file_to_what_it_may_not_show(renamed, call, command, code, said):
    output = await call("shell.readonly", command=command)
    assert output.code == code, output.text
    assert said in output.text
    assert "canary" not in output.text.replace(command, "")


async def test_git_says_what_went_wrong(repository, call):
    output = await call("shell.readonly", command="git show nosuchrevision")
    assert (output.outcome, output.code) == ("error", "failed")
    assert "nosuchrevision" in output.text
