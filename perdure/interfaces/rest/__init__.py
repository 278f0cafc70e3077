"""The REST door: runs, gates, definitions and events over HTTP, for programs and pages."""
