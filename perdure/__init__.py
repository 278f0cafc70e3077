"""Perdure: durable language-model loops on Temporal."""
