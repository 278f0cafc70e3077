"""Where an installation keeps its blobs, if not in or beside its database."""

import re
from typing import Literal, Self, cast, get_args

from perdure.domain.foundation.base import FrozenModel

Scheme = Literal["s3", "gs", "az", "file"]
PLACES = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER"

_URL = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<bucket>[^/]*)(?:/(?P<rest>.*))?", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STEP = re.compile(r"(?!\.+\Z)[A-Za-z0-9._=~+-]+")


class BlobPlace(FrozenModel):
    """A bucket or a folder, and what the names of all objects in it begin with.

    `bucket` is empty for a folder, whose whole path is `prefix`.
    """

    scheme: Scheme
    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a place as people write it; raises `ValueError` that says what is allowed."""
        found = _URL.fullmatch(url.strip())
        if found is None or found["scheme"] not in get_args(Scheme):
            raise ValueError(PLACES)
        scheme = cast(Scheme, found["scheme"])
        if "@" in found["bucket"] or "?" in url or "#" in url:
            raise ValueError(f"{PLACES}, without credentials or options, which are variables")
        steps = [step for step in (found["rest"] or "").split("/") if step]
        if scheme == "file":
            if found["bucket"] or not steps:
                raise ValueError("file:// with the whole path of a folder, as file:///srv/blobs")
            if {".", ".."} & set(steps):
                raise ValueError("file:// with a path without `.` and `..`")
            return cls(scheme=scheme, bucket="", prefix="/".join(steps))
        if _BUCKET.fullmatch(found["bucket"]) is None:
            raise ValueError(f"{PLACES}, where the bucket has letters, digits, `.`, `-` and `_`")
        if wrong := [step for step in steps if _STEP.fullmatch(step) is None]:
            raise ValueError(
                f"a prefix of letters, digits and `._=~+-` between its slashes, not {wrong[0]!r}"
            )
        return cls(scheme=scheme, bucket=found["bucket"], prefix="/".join(steps))

    @property
    def url(self) -> str:
        """The one way to write it."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")
