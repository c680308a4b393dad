"""Sidecar: a daemon beside the editor that hosts agent conversations.

Importing this package loads nothing else; each room is imported by its own name.
"""

__all__ = ["__version__"]

__version__ = "0.2.0"
