"""The embedded services: one supervisor per home folder keeps Temporal, model and workers alive.

Nothing in this package ends a process that it does not know by its id *and* its start time.
"""
