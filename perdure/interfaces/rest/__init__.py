"""The REST interface: runs, gates, definitions and events over HTTP, for programs and pages."""
