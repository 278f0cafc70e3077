"""Retention and erasure: what goes, when, and what stays of it."""
