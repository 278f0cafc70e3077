"""Orchestration: await, branch on what the domain says, never compute."""
