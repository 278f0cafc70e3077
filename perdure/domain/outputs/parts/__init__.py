"""Takes an output apart, finds the parts that fail, and merges better ones in."""

from perdure.domain.outputs.parts.formats import part_reply, part_text, replaced, tidy_output
from perdure.domain.outputs.parts.merging import (
    FailingPart,
    Version,
    bind_findings,
    failing_parts,
    findings_on,
    merge_replies,
    part_evaluation,
    part_label,
    part_score,
)
from perdure.domain.outputs.parts.output_limits import PART_TOKENS, draft_tokens, part_tokens

__all__ = [
    "PART_TOKENS",
    "FailingPart",
    "Version",
    "bind_findings",
    "draft_tokens",
    "failing_parts",
    "findings_on",
    "merge_replies",
    "part_evaluation",
    "part_label",
    "part_reply",
    "part_score",
    "part_text",
    "part_tokens",
    "replaced",
    "tidy_output",
]
