"""When two outputs count as the same: by canonical form, so that key order does not matter."""

import hashlib
import json

from perdure.domain.foundation.base import FrozenModel

HASH_CHARACTERS = 32


class SeenOutputs(FrozenModel):
    """The outputs of a run so far, by hash; as long as the iterations of a run at most."""

    hashes: tuple[str, ...] = ()

    def seen(self, output: str | None) -> bool:
        """Whether an output came before; an absent one never did."""
        key = output_hash(output)
        return key is not None and key in self.hashes

    def after(self, output: str | None) -> "SeenOutputs":
        """With one more output; absent and known ones add nothing, a known one becomes last."""
        key = output_hash(output)
        return self if key is None else self.noted(key)

    def noted(self, key: str) -> "SeenOutputs":
        """With the hash of one more output."""
        others = tuple(known for known in self.hashes if known != key)
        return SeenOutputs(hashes=(*others, key))


def output_hash(output: str | None, *, tree: str | None = None) -> str | None:
    """The hash of the canonical form; None for an absent or blank output.

    With a `tree` the same words about other files are another output.
    """
    if output is None or not output.strip():
        return None
    whole = canonical(output) if tree is None else f"{canonical(output)}\n{tree}"
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARACTERS]


def canonical(output: str) -> str:
    """JSON with sorted keys and no spaces; other text without trailing space on its lines."""
    text = output.strip()
    if text[:1] in {"{", "["}:
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):
            pass  # not JSON after all, or too deep to be worth it
    return "\n".join(line.rstrip() for line in text.splitlines())
