"""Shared plumbing below every other room: cancellation, the environment, and ``bug()``."""
