"""The user's editor as a session sees it: its state, mentions in prompts, and completion."""
