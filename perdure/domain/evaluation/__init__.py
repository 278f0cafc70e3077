"""Rubrics, checks, judges and conditions: how good an output is, and when that ends a run."""
