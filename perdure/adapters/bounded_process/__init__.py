"""Work on foreign text that could run for ever, done in a process with limits."""
