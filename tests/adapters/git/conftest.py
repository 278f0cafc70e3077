"""A repository whose configuration and files try to run a program at every turn."""

import os
import subprocess

import pytest

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor")


class Hostile:
    """A repository, the folder where its programs leave their traces, and plain git on it."""

    def __init__(self, folder):
        self.root = folder / "repository"
        self.traces = folder / "traces"
        self.program = folder / "evil"

    def git(self, *arguments, check=True):
        return subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *arguments],
            cwd=self.root, env=ENVIRONMENT, check=check, capture_output=True, text=True,
        )  # fmt: skip

    def found(self):
        return sorted(path.name for path in self.traces.iterdir())

    def clear(self):
        for path in self.traces.iterdir():
            path.unlink()


@pytest.fixture
def hostile(tmp_path):
    made = Hostile(tmp_path)
    made.root.mkdir()
    made.traces.mkdir()
    made.program.write_text(
        f'#!/bin/sh\nname="${{1:-none}}"\n: > "{made.traces}/$name"\nshift\n'
        'case "$name" in clean|smudge|textconv) cat "$@" ;; esac\nexit 0\n'
    )
    made.program.chmod(0o755)
    made.git("init", "-q", "-b", "main")
    (made.root / "a.txt").write_text("one\n")
    (made.root / "b.bin").write_text("data\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    (made.root / "a.txt").write_text("two\n")
    made.git("commit", "-q", "-am", "second")
    (made.root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    _sign_last_commit(made)
    _configure(made)
    (made.root / "a.txt").write_text("three\n")
    (made.root / "b.bin").write_text("touched\n")
    (made.root / "new.txt").write_text("new\n")
    return made


def _sign_last_commit(made):
    """A commit with a signature, so that showing it would call the signature program."""
    raw = made.git("cat-file", "commit", "HEAD").stdout
    head, _, message = raw.partition("\n\n")
    marks = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    signed = f"{head}\n{marks}\n\n{message}"
    path = made.root.parent / "commit"
    path.write_text(signed)
    made.git(
        "update-ref", "HEAD", made.git("hash-object", "-t", "commit", "-w", path).stdout.strip()
    )


def _configure(made):
    evil = made.program
    hooks = made.root.parent / "hooks"
    hooks.mkdir()
    for name in HOOKS:
        (hooks / name).write_text(f"#!/bin/sh\nexec {evil} hook-{name}\n")
        (hooks / name).chmod(0o755)
    included = made.root.parent / "included"
    included.write_text(
        f'[diff]\n\texternal = "{evil} external"\n[core]\n\tpager = "{evil} pager"\n'
    )
    config = made.root / ".git" / "config"
    config.write_text(
        f"""{config.read_text()}
[include]
\tpath = {included}
[core]
\tfsmonitor = "{evil} fsmonitor"
\thooksPath = {hooks}
\tsshCommand = "{evil} ssh"
\talternateRefsCommand = "{evil} alternates"
\teditor = "{evil} editor"
\taskPass = {evil}
[pager]
\tlog = "{evil} pager-log"
\tstatus = "{evil} pager-status"
[filter "evil"]
\tclean = "{evil} clean"
\tsmudge = "{evil} smudge"
\trequired = true
[diff "evil"]
\ttextconv = "{evil} textconv"
\tcommand = "{evil} driver"
[gpg]
\tprogram = {evil}
[log]
\tshowSignature = true
[format]
\tpretty = "%H %G?"
[pretty]
\tevil = "%G?"
[alias]
\tblame = "!{evil} alias"
[remote "origin"]
\turl = "ext::{evil} transport"
\tpromisor = true
\tpartialclonefilter = blob:none
[protocol "ext"]
\tallow = always
[extensions]
\tpartialClone = origin
[credential]
\thelper = "!{evil} credential"
"""
    )
