"""Name and version of this program."""

from importlib.metadata import version

VERSION = version("perdure")
