"""What is told while something takes a while."""


class Standing(str):
    """Progress that its reader must know also after it, and where no progress is shown."""

    __slots__ = ()
