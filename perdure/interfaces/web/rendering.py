"""Templates, and how foreign text gets into them: escaped, or as cleaned HTML.

Goals, outputs, file names and arguments come from models and strangers. Templates escape all of
them. Markdown is parsed without raw HTML and then cleaned by an allow list: no scripts, styles,
forms or images, and no addresses except links that a person clicks.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path

import nh3
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from perdure.domain.foundation.plain_text import visible
from perdure.interfaces import formatting

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
# A text box on a narrow phone holds at least so many rows, and so many characters a row.
_ROWS, _NARROWEST = 18, 25
# Of a longer text only the beginning is shown: the whole would keep server and browser busy.
MOST_SHOWN = 200_000
# The parser fills up short rows of a table, so that a small text could become a large page.
MOST_CELLS = 10_000
LINE_END = re.compile(r"\r\n?|\n")
# Its two parts begin with different signs: if both took spaces, a line of 100,000 took minutes.
_DELIMITERS = re.compile(r"[>\s]*[-:|][-:|\s]*")
_markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_NESTING = frozenset({"blockquote_open", "list_item_open"})


def markdown(text: str) -> Markup:
    """Foreign Markdown as harmless HTML.

    Shown as plain text if it or its tables are too long, or its lists and quotations too deep.
    """
    if len(text) > MOST_SHOWN or _cells(seen := visible(text)) > MOST_CELLS:
        return source(text)
    named: dict[str, object] = {}  # the targets of links, which the parser finds
    parsed = _markdown.parse(seen, named)
    if _is_too_deep(parsed):
        return source(text)
    cleaned = nh3.clean(
        _markdown.renderer.render(parsed, _markdown.options, named),
        tags=_TAGS,
        attributes={"a": {"href"}},
        # Wide ones scroll, and the keyboard can scroll only what has the focus.
        set_tag_attribute_values={"pre": {"tabindex": "0"}, "table": {"tabindex": "0"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(f'<div class="prose" dir="auto">{cleaned}</div>')


def _is_too_deep(parsed: Sequence[Token]) -> bool:
    # The parser leaves out what stands in such a list or quotation, without a word.
    deepest = _markdown.options.maxNesting - 1
    return any(one.level >= deepest and one.type in _NESTING for one in parsed)


def _cells(text: str) -> int:
    """How many cells the tables of a text have at most; a table ends at an empty line."""
    found = columns = 0
    for line in LINE_END.split(text):  # as the parser; `splitlines` knows more ends
        if not line.strip():
            columns = 0
        elif _DELIMITERS.fullmatch(line):
            columns = max(columns, line.count("|") + 1)
        found += columns
    return found


def source(text: str) -> Markup:
    """Foreign text with hidden characters made visible; where it is cut, it says so."""
    # Cut first: making signs visible takes time for each, and makes the text longer.
    seen, left = visible(text[:MOST_SHOWN]), len(text) - MOST_SHOWN
    shown = Markup('<pre class="source" dir="auto"{}>{}</pre>').format(by_keyboard(seen), seen)
    if left <= 0:
        return shown
    return shown + Markup('<p class="trouble">Cut here: {} more are not shown.</p>').format(
        formatting.plural(left, "character")
    )


def is_cut(value: str) -> bool:
    """Whether a text is too long to be shown whole."""
    return len(value) > MOST_SHOWN


def by_keyboard(text: str) -> Markup:
    """Attributes for a text box that may scroll: the keyboard scrolls only a focused box."""
    rows = sum(1 + len(line) // _NARROWEST for line in text.split("\n"))
    return Markup(' tabindex="0" role="group" aria-label="Text"' if rows > _ROWS else "")


def words(name: str | None) -> str:
    """A name from the API as words: `best_effort` becomes "best effort"."""
    return (name or "").replace("_", " ").replace("-", " ")


@cache
def templates() -> Environment:
    """All templates, found in the folders of their routes."""
    found = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        # A misspelt name would otherwise show nothing, and nobody would notice.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "markdown": markdown,
        "source": source,
        "by_keyboard": by_keyboard,
        "visible": visible,
        "words": words,
        "money": formatting.money,
        "tokens": formatting.tokens,
        "duration": formatting.duration,
        "score": formatting.score,
        "one_line": formatting.one_line,
        "model_name": formatting.model_name,
        "plural": formatting.plural,
        "tools_made": formatting.tools_made_words,
    }
    found.filters.update(filters)
    found.globals["asset"] = asset
    found.tests["cut"] = is_cut
    return found


def rendered(template: str, now: datetime, **given: object) -> str:
    """Fill a template; `ago(moment)` in it counts back from `now`."""
    return (
        templates()
        .get_template(template)
        .render(ago=partial(formatting.roughly_ago, now=now), now=now, **given)
    )


@cache
def script() -> bytes:
    """All scripts as one file, in the order of their dependencies."""
    names = ("htmx-4.0.1.min.js", "hx-sse-4.0.1.min.js", "page.js", "forms.js")
    return b"\n".join((ASSETS / name).read_bytes() for name in names)


@cache
def style() -> bytes:
    return (ASSETS / "page.css").read_bytes()


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "page.js": ("text/javascript", script),
    "page.css": ("text/css", style),
    "icon.svg": ("image/svg+xml", lambda: (ASSETS / "icon.svg").read_bytes()),
}


@cache
def asset(name: str) -> str:
    """The address of a file; it changes with the content, so that browsers can cache it forever."""
    digest = hashlib.sha256(FILES[name][1]()).hexdigest()[:12]
    return f"/assets/{digest}/{name}"
