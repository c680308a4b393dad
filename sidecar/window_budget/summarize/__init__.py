"""Condensing messages into a digest: by a model, and without one."""
