"""The prompt: every command with a slash before it, and the open runs in view."""
