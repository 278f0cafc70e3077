"""Stored trees: a manifest from path to blob and mode, itself a blob."""

import json
from collections.abc import Mapping
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from perdure.adapters.files.paths import is_safe_tree_path
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import StoreError
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.ports import BlobStore

Mode = Literal["100644", "100755", "120000"]
LINK: Mode = "120000"
EXECUTABLE: Mode = "100755"


class Leaf(FrozenModel):
    """One file of a tree: where its bytes are, and git's word for its kind."""

    blob: str
    mode: Mode = "100644"

    @property
    def permissions(self) -> int:
        """The mode of the file when it is written."""
        return 0o755 if self.mode == EXECUTABLE else 0o644


Tree = Mapping[str, Leaf]

_TREE: TypeAdapter[dict[str, Leaf]] = TypeAdapter(dict[str, Leaf])


async def store_tree(blobs: BlobStore, tree: Tree) -> BlobRef:
    """Store the manifest; equal trees have equal references."""
    plain = {path: {"blob": leaf.blob, "mode": leaf.mode} for path, leaf in sorted(tree.items())}
    # Escapes keep names that are not UTF-8 readable for `json` and harmless for all others.
    return await blobs.put_text(json.dumps(plain, ensure_ascii=True, separators=(",", ":")))


async def load_tree(blobs: BlobStore, address: str) -> dict[str, Leaf]:
    """The manifest of a stored tree; raises `StoreError` when it is none."""
    text = await blobs.get_text(address)
    try:
        tree = _TREE.validate_python(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise StoreError(
            f"{address} is not a stored tree.", cure="Give the tree id of an iteration record."
        ) from error
    unsafe = [path for path in tree if not is_safe_tree_path(path)]
    if unsafe:
        raise StoreError(f"The tree {address} holds the path {unsafe[0]!r}, which is not allowed.")
    return tree


def changed_paths(base: Tree, tree: Tree) -> list[str]:
    """Paths whose leaf differs between two trees, in order."""
    return sorted(path for path in {*base, *tree} if base.get(path) != tree.get(path))
