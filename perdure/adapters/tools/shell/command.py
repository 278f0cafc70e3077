"""`shell.readonly`: parses one command line and runs one command of a fixed list.

It starts no shell and, apart from git, no program. Each command is implemented in this package on
the workspace's descriptor, so flags and operands cannot do anything else.
"""

from collections.abc import Callable

from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.adapters.tools.execution import in_thread
from perdure.adapters.tools.shell import dir_commands, grep, text_commands
from perdure.adapters.tools.shell.git import git
from perdure.adapters.tools.shell.grammar import Grammar, Parsed, Word, command_error, read, split
from perdure.adapters.tools.shell.io import PageFull, Place
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.tools.selection import READONLY_SHELL
from perdure.extending.tool_decorator import ToolContext, tool

Run = Callable[[Place, Parsed], None]

COMMANDS: dict[str, tuple[Grammar, Run]] = {
    "cat": (text_commands.CAT, text_commands.cat),
    "head": (text_commands.HEAD, text_commands.head),
    "tail": (text_commands.TAIL, text_commands.tail),
    "wc": (text_commands.WC, text_commands.wc),
    "sort": (text_commands.SORT, text_commands.sort),
    "uniq": (text_commands.UNIQ, text_commands.uniq),
    "cut": (text_commands.CUT, text_commands.cut),
    "diff": (text_commands.DIFF, text_commands.diff),
    "grep": (grep.GREP, grep.grep),
    "ls": (dir_commands.LS, dir_commands.ls),
    "stat": (dir_commands.STAT, dir_commands.stat),
}
# `find` and `git` have grammars of their own.
_NAMES = frozenset({*COMMANDS, "find", "git"})


@tool(name=READONLY_SHELL, access="execute", idempotent=True, aliases=("bash", "shell"))
async def shell_readonly(command: str, context: ToolContext) -> str:
    """Run one reading command in the workspace: cat, head, tail, ls, wc, grep, find, sort, uniq,
    cut, stat, diff, or git status, log, diff, show, blame, branch, ls-files. There is no shell:
    no pipes, redirections, variables or unquoted globs.

    Args:
        command: the command line, such as grep -rn "def main" src
    """
    words = _words(command)
    if words[0].text == "git":
        return await git(words[1:], root=context.grant.root)
    return str(await in_thread(lambda: _read_page(words, context)))


def rehearse(command: str, context: ToolContext) -> str:
    """Check the command line with its flags and operands, without running it."""
    words = _words(command)
    # `find` and `git` check their words only when they run.
    if words[0].text in COMMANDS:
        grammar, _ = COMMANDS[words[0].text]
        read(words[0].text, words[1:], grammar)
    return ""


shell_readonly = shell_readonly.rehearsed(rehearse)


def _words(command: str) -> tuple[Word, ...]:
    words = split(command)
    name = words[0]
    if not name.bare or name.text not in _NAMES:
        raise command_error(f"{name.text[:80]!r} is not on the list ({', '.join(sorted(_NAMES))})")
    return words


def _read_page(words: tuple[Word, ...], context: ToolContext) -> str:
    name = words[0].text
    with RootedDirectory(context.grant.root, guarded=True) as files:
        place = Place(files=files, stopping=context.stopping)
        try:
            if name == "find":
                dir_commands.find(place, words[1:])
            else:
                grammar, run = COMMANDS[name]
                run(place, read(name, words[1:], grammar))
        except PageFull as full:
            return f"{place.page}\n[… stopped: {full} …]"
        # `ls -R` recurses, and a model can nest folders as deep as it likes.
        except RecursionError as error:
            raise ToolFailure("The folders are nested too deeply.", reason="too_deep") from error
        return place.page or "(no output)"
