"""Views: pure functions from domain types to rich renderables, for terminals and pipes."""
