"""Models through the official `openai` client: the Responses API, and chat completions."""
