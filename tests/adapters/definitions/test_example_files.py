"""Laying out examples: files are copied, mailboxes become repositories, nothing is written over."""

import subprocess
from pathlib import Path

import pytest

from perdure.adapters.definitions.example_files import lay_out
from perdure.domain.foundation.errors import NotAllowed

PATCH = """\
From 0000000000000000000000000000000000000001 Mon Sep 17 00:00:00 2001
From: Ada Miller <ada@example.org>
Date: Mon, 2 Mar 2026 09:00:00 +0000
Subject: [PATCH] Begin

---
diff --git a/a.txt b/a.txt
new file mode 100644
index 0000000..257cc56
--- /dev/null
+++ b/a.txt
@@ -0,0 +1 @@
+foo
"""


def source(folder: Path, mailbox: str = PATCH) -> Path:
    made = folder / "source"
    made.mkdir()
    (made / "input.txt").write_text("hello", encoding="utf-8")
    (made / "repository.mbox").write_text(mailbox, encoding="utf-8")
    return made


async def test_a_mailbox_becomes_a_repository(tmp_path: Path) -> None:
    target = tmp_path / "home" / "examples" / "one"
    await lay_out(source(tmp_path), target)
    assert (target / "input.txt").read_text(encoding="utf-8") == "hello"
    assert (target / "repository" / "a.txt").read_text(encoding="utf-8") == "foo\n"
    command = ["git", "-C", str(target / "repository"), "log", "--format=%an %s"]
    said = subprocess.run(command, capture_output=True, check=True, text=True)
    assert said.stdout.strip() == "Ada Miller Begin"
    assert [item.name for item in target.parent.iterdir()] == ["one"]


async def test_what_is_laid_out_stays(tmp_path: Path) -> None:
    target = tmp_path / "one"
    target.mkdir()
    (target / "input.txt").write_text("mine", encoding="utf-8")
    await lay_out(source(tmp_path), target)
    assert (target / "input.txt").read_text(encoding="utf-8") == "mine"


async def test_a_broken_mailbox_leaves_nothing(tmp_path: Path) -> None:
    broken = PATCH.replace("@@ -0,0 +1 @@\n+foo", "@@ -1 +1 @@\n-bar\n+foo")
    with pytest.raises(NotAllowed, match="repository"):
        await lay_out(source(tmp_path, broken), tmp_path / "one")
    assert not (tmp_path / "one").exists()
