"""The most tokens that an image or a PDF takes of a prompt, by the providers' own formulas.

One count serves all models, so that a workflow can reserve it before it knows the content: the
largest of what the providers document. A model whose provider charges more has a factor on its
card. Where a provider counts prompts itself, its count replaces this one before anything is sent.

Claude: a token for each 28 × 28 pixels, which is about width × height / 750, at most 4,784 for an
image (https://platform.claude.com/docs/en/build-with-claude/vision); a page of a PDF is its text,
1,500 to 3,000 tokens, and its image (…/build-with-claude/pdf-support). OpenAI: 85 tokens and 170
for each tile of 512 pixels, after scaling to 2048 and then 768 pixels; newer families count patches
of 32 × 32 pixels (https://developers.openai.com/api/docs/guides/images-vision).
"""

import math

CLAUDE_PATCH_PIXELS = 28
CLAUDE_PIXELS_PER_TOKEN = 750
# The documented figure is an approximate one.
MOST_IMAGE_TOKENS = 5_000
TILE_PIXELS = 512
TILE_BASE_TOKENS = 85
TILE_TOKENS = 170
TILES_FIT_PIXELS = 2_048
TILES_SHORT_PIXELS = 768
PAGE_TEXT_TOKENS = 3_000
PAGE_TOKENS = PAGE_TEXT_TOKENS + MOST_IMAGE_TOKENS


def image_tokens(width: int | None, height: int | None) -> int:
    """The most that an image of this size in pixels takes; one of unknown size the most of all."""
    if not width or not height:
        return MOST_IMAGE_TOKENS
    patches = math.ceil(width / CLAUDE_PATCH_PIXELS) * math.ceil(height / CLAUDE_PATCH_PIXELS)
    area = math.ceil(width * height / CLAUDE_PIXELS_PER_TOKEN)
    return max(min(max(patches, area), MOST_IMAGE_TOKENS), tile_tokens(width, height))


def tile_tokens(
    width: int, height: int, *, base: int = TILE_BASE_TOKENS, tile: int = TILE_TOKENS
) -> int:
    """What an image takes where tiles are counted."""
    fit = min(1.0, TILES_FIT_PIXELS / max(width, height))
    short = min(1.0, TILES_SHORT_PIXELS / (min(width, height) * fit))
    across, down = (max(1.0, side * fit * short) for side in (width, height))
    return base + tile * math.ceil(across / TILE_PIXELS) * math.ceil(down / TILE_PIXELS)


def pdf_tokens(pages: int | None) -> int:
    """The most that a PDF takes: the text of its pages, and an image of each."""
    return PAGE_TOKENS * max(1, pages or 1)
