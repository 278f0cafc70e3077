"""The embedded services: one supervisor process per user keeps Temporal, model and worker alive.

What a caller needs is named here. Nothing in this package ends a process that it cannot name by its
id *and* its start.
"""
