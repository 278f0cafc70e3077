"""`shell.readonly`: a small fixed set of reading commands, without a shell."""
