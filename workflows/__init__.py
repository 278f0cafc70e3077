"""Orchestration: await, branch on what the domain says, never compute.

What changes the course of open runs stands behind `workflow.patched`. The comment above the name
of a patch begins with "Patch:" and says what runs did before it. A condition asks its patch last:
the marker is then written only where the answer matters, and all other histories stay as they are.

The folder lies at the top of the checkout, and is imported as `perdure.workflows`.
"""
