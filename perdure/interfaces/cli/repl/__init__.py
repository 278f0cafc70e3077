"""The shell inside the shell: every command with a slash before it, and what runs in sight."""
