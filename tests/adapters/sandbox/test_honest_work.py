"""What people build and test with must work in the sandbox with all its layers."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from enclosure import needs_bubblewrap

from perdure.adapters.sandbox.commands import SYSTEM_PATH, Allowance, LocalCommands
from perdure.domain.evaluation.program_checks import Command

pytestmark = [needs_bubblewrap, pytest.mark.long]

OURS = f"{os.path.dirname(sys.executable)}:{SYSTEM_PATH}"
FILES = {
    "test_sum.py": "def test_sum(tmp_path):\n    assert (tmp_path / 'a').write_text('1') == 1\n",
    "main.c": "#include <stdio.h>\n#include <pthread.h>\n"
    'static void *say(void *x) { puts("threads work"); return x; }\n'
    "int main(void) { pthread_t t; pthread_create(&t, 0, say, 0); return pthread_join(t, 0); }\n",
    "main.js": "const { execFileSync } = require('child_process');\n"
    "require('fs').promises.readFile('main.c').then(() =>\n"
    "  console.log(String(execFileSync('echo', ['node works']))));\n",
}
WORK = {
    "pytest": ("pytest -q -p no:cacheprovider test_sum.py", "1 passed"),
    "ruff": ("ruff check --no-cache test_sum.py", "All checks passed"),
    "git": (
        "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm one"
        " && git log --format=%s",
        "one",
    ),
    "gcc": ("gcc -O2 -pthread -o main main.c && ./main", "threads work"),
    "make": (
        "printf 'all:\\n\\tgcc -o main main.c\\n' > Makefile && make -s && ./main",
        "threads work",
    ),
    "node": ("node main.js", "node works"),
}


@pytest.mark.parametrize("program", WORK)
async def test_honest_work_is_not_hindered(program: str, tmp_path: Path) -> None:
    found = shutil.which(program, path=OURS)
    if found is None:
        pytest.skip(f"{program} is not installed")
    line, said = WORK[program]
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    allowed = Allowance(commands=("sh",), readable=_home(found), timeout_s=90.0, search=OURS)
    path = f"PATH={os.path.dirname(found)}:$PATH"
    ran = await LocalCommands(allowed).run(
        Command(argv=("sh", "-c", f"{path}; {line}"), folder=str(tmp_path))
    )
    assert (ran.code, said in ran.out) == (0, True), (ran.out, ran.err)


def _home(program: str) -> tuple[str, ...]:
    """The installations that a program of our own environment needs."""
    if not program.startswith(os.path.dirname(sys.executable)):
        return ()
    return (sys.prefix, sys.base_prefix)
