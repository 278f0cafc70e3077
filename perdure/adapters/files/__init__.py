"""File access that never leaves a folder: no link, no race, no absolute path."""
