"""What this program is."""

from importlib.metadata import version

VERSION = version("perdure")
