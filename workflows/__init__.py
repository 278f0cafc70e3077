"""Orchestration: workflows await, and branch on what the domain says."""
