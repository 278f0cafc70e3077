"""Checks paths from a model: they must be relative, plain, and not protected."""

import unicodedata
from itertools import pairwise
from typing import Literal

from perdure.domain.foundation.errors import ToolFailure

MAX_PATH_BYTES = 4_096
MAX_NAME_BYTES = 255
MAX_NAMES = 100

Use = Literal["read", "write"]

VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", ".sl", ".bzr"})
# `git~1` is the short name of `.git` on Windows file systems.
_GIT = frozenset({".git", "git~1"})
_NEVER = VERSION_CONTROL | _GIT
_DOTENV_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
# Files that a build server, an editor or a hook would execute after the run.
_RUN_LATER = frozenset(
    {
        ".github", ".gitlab", ".gitlab-ci.yml", ".gitlab-ci.yaml", ".circleci", ".travis.yml",
        ".buildkite", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml", ".drone.yml", ".gitea",
        ".forgejo", ".ci", ".teamcity", ".azure-pipelines", "jenkinsfile", "azure-pipelines.yml",
        "azure-pipelines.yaml", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml",
        "cloudbuild.yaml", ".pre-commit-config.yaml", ".husky", ".gitmodules", ".envrc", ".vscode",
        ".idea", ".devcontainer", ".zed", ".claude", ".cursor", ".windsurf", ".gemini", ".codex",
        ".continue", ".mcp.json", ".npmrc", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", ".bazelrc",
        ".mise.toml", "mise.toml", ".lfsconfig", "lefthook.yml", "lefthook.yaml", "lefthook.toml",
        "lefthook.json", ".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml", ".lefthook",
        ".githooks", ".git-hooks", ".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".yarn",
        ".pnp.cjs", ".pnp.loader.mjs",
        "perdure.yaml",  # our settings: which plugins a worker loads, which programs may run
    }
)  # fmt: skip
_RUN_LATER_BELOW = frozenset({(".cargo", "config"), (".cargo", "config.toml")})
# The files that `why_protected` keeps from being read, as patterns for programs such as git.
SECRET_GLOBS = (".env", ".env.*", "*.env")
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Co", "Zl", "Zp"})
_BIDI_CONTROLS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def parse(path: str, *, use: Use) -> tuple[str, ...]:
    """The components of a path inside the workspace; `()` is the workspace itself.

    Raises:
        ToolFailure: the path is absolute, leaves the workspace, holds control characters, is too
            deep, or is protected.
    """
    _check_text(path)
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if len(parts) > MAX_NAMES:
        raise ToolFailure(
            f"The path {shown(path)} has {len(parts):,} names, and may have {MAX_NAMES}. "
            "Use fewer folders inside each other.",
            reason="path",
        )
    for part in parts:
        if part == "..":
            raise ToolFailure(
                f"The path {shown(path)} holds '..'. Paths stay inside the workspace; "
                "name the file from the workspace's top.",
                reason="path",
            )
        if len(part.encode()) > MAX_NAME_BYTES:
            raise ToolFailure(
                f"A name in the path {shown(path)} is longer than {MAX_NAME_BYTES} bytes.",
                reason="path",
            )
    if reason := why_protected(parts, use=use):
        raise ToolFailure(
            f"{shown(path)} is {reason}. Work on another file, or ask a person to change it.",
            reason="protected",
        )
    return parts


def why_protected(parts: tuple[str, ...], *, use: Use) -> str | None:
    """Why this path must not be used so, or None; compares whole components, never prefixes."""
    names = tuple(map(_folded, parts))
    if use == "write" and not _RUN_LATER_BELOW.isdisjoint(pairwise(names)):
        return "run by build servers, editors or hooks later, so tools do not write it"
    for name in names:
        if name in _NEVER:
            return "inside a version control folder, which tools do not touch"
        if is_secret(name):
            return "a file of secrets (dotenv), which tools neither read nor write"
        if use == "write" and name in _RUN_LATER:
            return "run by build servers, editors or hooks later, so tools do not write it"
    return None


def is_secret(name: str) -> bool:
    """Whether a file or folder of this name holds secrets: a dotenv file that is no sample."""
    folded = _folded(name)
    return is_dotenv(folded) and folded not in _DOTENV_SAMPLES


def is_dotenv(name: str) -> bool:
    """Whether a file name is that of a dotenv file."""
    return name == ".env" or name.startswith(".env.") or (name.endswith(".env") and len(name) > 4)


def shown(path: str) -> str:
    """A path as a message shows it: on one line, printable, and not too long."""
    text = path if len(path) <= 200 else path[:200] + "…"
    return repr(text) if not text.isprintable() or not text or " " in text else text


def is_safe_tree_path(path: str) -> bool:
    """Whether a path of a stored tree may be written: relative, and not in `.git`.

    This is less strict than `parse`, because existing files may have unusual names.
    """
    parts = path.split("/")
    return "\0" not in path and all(
        part not in {"", ".", ".."} and _folded(part) not in _GIT for part in parts
    )


def is_version_control(path: str) -> bool:
    """Whether a path is one of version control, or below one."""
    return any(_folded(part) in _NEVER for part in path.split("/"))


def _check_text(path: str) -> None:
    if not path:
        raise ToolFailure(
            "The path is empty. Name a file relative to the workspace.", reason="path"
        )
    # Bidirectional controls could make one name look like another.
    if any(
        unicodedata.category(character) in _REFUSED_CATEGORIES or character in _BIDI_CONTROLS
        for character in path
    ):
        raise ToolFailure(
            f"The path {shown(path)} holds a control character. Use plain characters only.",
            reason="path",
        )
    # After the check above, which refuses surrogates: `encode` raises on them.
    if len(path.encode()) > MAX_PATH_BYTES:
        raise ToolFailure(
            f"The path {shown(path)} is longer than {MAX_PATH_BYTES} bytes. Use a shorter one.",
            reason="path",
        )
    if path.startswith("/"):
        raise ToolFailure(
            f"The path {shown(path)} is absolute. Use a path relative to the workspace.",
            reason="path",
        )


def _folded(name: str) -> str:
    """The name as the most lenient file system sees it: without case, look-alikes, final dots."""
    plain = "".join(
        character
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character) != "Cf"
    )
    return plain.casefold().rstrip(" .") or plain
