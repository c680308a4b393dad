"""Checkpoints: files are kept before a tool changes them, and can be taken back."""
