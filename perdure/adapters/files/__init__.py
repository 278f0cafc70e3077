"""File access that cannot leave a folder by links, races or absolute paths."""
