"""The rules that a session keeps: of the user, in files and in prompts, and how they reach the model."""
