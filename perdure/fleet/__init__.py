"""The workers of one process: what each queue serves, and when a worker ends."""
