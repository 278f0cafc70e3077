"""Work on foreign text that may take for ever, in a process with limits."""
