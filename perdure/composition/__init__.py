"""Composition: settings become adapters, adapters become services."""
