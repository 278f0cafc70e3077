"""Write the pages of docs/ that repeat code: commands and settings.

python -P ops/reference.py docs            writes them
python -P ops/reference.py --check docs    names those that are out of date
"""

import ast
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args, get_origin

from cyclopts import App
from pydantic.fields import FieldInfo
from rich.console import Console

from perdure.adapters.settings import fields
from perdure.adapters.settings.fields import PREFIX, SettingFields
from perdure.interfaces.cli.app import build

MADE = "<!-- Made by: make reference. Do not edit. -->\n"
NOTHING = "–"
BOUNDS = (("ge", "at least"), ("gt", "above"), ("le", "at most"))

COMMANDS = """
# Command line reference

Every command with its arguments and options, as `perdure COMMAND --help` shows them. The guide to
[the command line](commands.md) says how they work together.
"""

SETTINGS = """
# Settings

Every setting of an installation. `perdure config` shows the value of each and where it comes from;
`perdure config NAME VALUE` writes one into a file. A file names a setting in lower case without
the prefix: `PERDURE_LOG_LEVEL` is `log_level` there. [Operations](operations.md#settings) explains
which source wins.

Lists are words separated by commas, or JSON. `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` and
`ANTHROPIC_BASE_URL` also work without the prefix, and so do the settings of OpenAI and Azure. The
Temporal server is set by Temporal's own variables (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
`TEMPORAL_PROFILE` …).
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field as its source has it."""

    name: str
    group: str
    text: str


def command_page() -> str:
    """The help of all commands as one page."""
    nowhere = Console(file=io.StringIO())
    app = build("0", nowhere, nowhere)
    _pass_down(app)
    text = app.generate_docs()
    # Under `python -m pytest` cyclopts leaves `-m pytest` of the caller in each usage line.
    text = re.sub(r"^(perdure [a-z ]+?) -m \S+", r"\1", text, flags=re.MULTILINE)
    _, start, rest = text.partition("**Start**:")
    rest = f"{start}{rest}".replace("**Parameters**:", "**Options**:")
    return f"{MADE}{COMMANDS}\n{rest.rstrip()}\n"


def _pass_down(app: App) -> None:
    """Give the commands below the defaults of their parent, as they have when they are called.

    `generate_docs` of cyclopts 5.4 gives them to the first level alone, and invents `--no-…` below.
    """
    for command in app.resolved_commands().values():
        command.default_parameter = command.default_parameter or app.default_parameter
        _pass_down(command)


def settings_page() -> str:
    """All settings by group, with defaults and limits."""
    source = Path(fields.__file__).read_text(encoding="utf-8")
    parts, group = [f"{MADE}{SETTINGS}"], ""
    for setting in settings_in(source):
        if setting.group != group:
            group = setting.group
            parts.append(f"\n## {group}\n\n| variable | default | meaning |\n| --- | --- | --- |\n")
        parts.append(row(setting, SettingFields.model_fields[setting.name]))
    return "".join(parts)


def settings_in(source: str) -> Iterator[Setting]:
    """The fields of a settings class with the text below each."""
    lines, group = source.splitlines(), ""
    (found,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == SettingFields.__name__
    ]
    for node, after in zip(found.body, [*found.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if (above := lines[node.lineno - 2].strip()).startswith("# "):
            group = above.removeprefix("# ")
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield Setting(node.target.id, group, " ".join(text.split()))
            case _:
                raise SystemExit(f"{node.target.id} says nothing of what it means")


def row(setting: Setting, field: FieldInfo) -> str:
    name, default = f"{PREFIX}{setting.name}".upper(), shown(field.default)
    default = default if default == NOTHING else f"`{default}`"
    more = "".join(f" {text}." for text in limits(field))
    return f"| `{name}` | {default} | {setting.text}{more} |\n"


def shown(value: object) -> str:
    match value:
        case None | ():
            return NOTHING
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def limits(field: FieldInfo) -> Iterator[str]:
    """What the type says of the values, in words."""
    if get_origin(field.annotation) is Literal:
        yield "One of " + ", ".join(f"`{value}`" for value in get_args(field.annotation))
    found = [
        f"{words} {value}"
        for name, words in BOUNDS
        for value in [getattr(one, name, None) for one in field.metadata]
        if value is not None
    ]
    if found:
        yield " and ".join(found).capitalize()


PAGES: Mapping[str, Callable[[], str]] = {
    "cli-reference.md": command_page,
    "settings.md": settings_page,
}


def main(arguments: list[str]) -> int:
    folder = Path(arguments[-1])
    stale = [name for name, made in PAGES.items() if not is_current(folder / name, made())]
    if "--check" not in arguments:
        for name in stale:
            (folder / name).write_text(PAGES[name](), encoding="utf-8")
        return 0
    if stale:
        print("\n".join(stale), "Write them anew: make reference", sep="\n", file=sys.stderr)  # noqa: T201
    return 1 if stale else 0


def is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
