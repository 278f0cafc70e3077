"""Rules of the agent loop: tool calls, strikes, repeats, text answers, forced endings."""
