"""Which families of models can be shown images and PDFs, and what more they charge for them.

No price list says it. Families of Claude and GPT that came after these tables are taken to see, as
all their forebears do; what a provider does not take, it refuses in its own words.
"""

from dataclasses import dataclass

from perdure.domain.llm.file_signatures import AttachmentKind

IMAGES: tuple[AttachmentKind, ...] = ("image",)
BOTH: tuple[AttachmentKind, ...] = ("image", "pdf")
# The largest that OpenAI documents for a family that counts patches.
LARGEST_MULTIPLIER = 2.46


@dataclass(frozen=True, slots=True)
class Vision:
    """What a family can be shown, and by how much it exceeds the usual bound."""

    takes: tuple[AttachmentKind, ...] = ()
    factor: float = 1.0


BLIND = Vision()
SEES = Vision(BOTH)
# By family, the longest matching start wins.
_FAMILIES = {
    "claude": SEES,
    "claude-1": BLIND,
    "claude-2": BLIND,
    "claude-v1": BLIND,
    "claude-instant": BLIND,
    "claude-3-": Vision(IMAGES),
    "claude-3-5-": SEES,
    "claude-3-7-": SEES,
    "gpt-4-turbo": Vision(IMAGES),
    "gpt-4o": SEES,
    # A picture costs as much as with gpt-4o, of tokens that are that much cheaper.
    "gpt-4o-mini": Vision(BOTH, 34.0),
    "gpt-4o-audio": BLIND,
    "gpt-4o-mini-audio": BLIND,
    "gpt-4.1": SEES,
    "gpt-4.1-mini": Vision(BOTH, 1.62),
    "gpt-4.1-nano": Vision(BOTH, 2.46),
    "chatgpt-": Vision(IMAGES),
    "o1": SEES,
    "o1-mini": BLIND,
    "o1-preview": BLIND,
    "o3": SEES,
    "o3-mini": BLIND,
    "o4-mini": Vision(BOTH, 1.72),
    "gpt-5": SEES,
    "gpt-5-mini": Vision(BOTH, 1.62),
    "gpt-5-nano": Vision(BOTH, 2.46),
    "gpt-5.": Vision(BOTH, LARGEST_MULTIPLIER),
    "gpt-6": Vision(BOTH, LARGEST_MULTIPLIER),
}


def vision_of(model: str) -> Vision:
    """What a model can be shown; the longest start of its name decides, an unknown one is blind."""
    starts = [start for start in _FAMILIES if model.startswith(start)]
    return _FAMILIES[max(starts, key=len)] if starts else BLIND
