"""One run: what it does, what it made, what it cost, and the ways to steer it."""
