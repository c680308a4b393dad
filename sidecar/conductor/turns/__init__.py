"""The turns of a session: prompts, the agent that answers them, commands and changes."""
