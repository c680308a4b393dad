"""Plumbing below every other room: cancellation, the environment, errors, the file lock, secrets."""
