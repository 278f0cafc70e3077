"""Answers of grep are those of the real one, and long lines take no time."""

import shlex
import subprocess
import time

import pytest

TEXT = "cost $HOME\na^b\n^start\nend$\naaa bab\n(x) {y}\nplain a.b\n"
CASES = [
    "'$HOME'", "'a^b'", "'^a'", "'d$'", "-E '^a'", "-F '$HOME'", "-o 'a'", "-o '^a'", "-o 'a*'",
    "'\\(^a\\)'", "'\\(d$\\)'", "'x\\|^a'", "-o -e 'a' -e 'b'", "'^^start'", "'end$$'", "-c 'a'",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_it_answers_as_grep_does(root, call, case):
    (root / "f.txt").write_text(TEXT)
    real = subprocess.run(
        ["grep", *shlex.split(case), "f.txt"], cwd=root, capture_output=True, text=True, check=False
    )
    output = await call("shell.readonly", command=f"grep {case} f.txt")
    assert output.outcome == "ok"
    assert output.text == (real.stdout.rstrip("\n") or "(no output)")


async def test_matches_of_a_long_line_take_no_time(root, call):
    (root / "long.txt").write_text("ab" * 200_000)
    began = time.process_time()
    await call("shell.readonly", command="grep -o 'a' long.txt")
    assert time.process_time() - began < 10


async def test_find_takes_print0(root, call):
    (root / "f.txt").write_text(TEXT)
    output = await call("shell.readonly", command="find . -name f.txt -print0")
    assert (output.outcome, "f.txt" in output.text) == ("ok", True)
