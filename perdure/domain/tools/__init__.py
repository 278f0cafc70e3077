"""What a tool is, who may call it, and which tools a run has."""
