"""The shared daemon: its files, the way to it, starting it, and serving several clients.

A shim loads ``paths``, ``connecting`` and ``shim`` in a few milliseconds: these import neither asyncio nor
dataclasses. The other modules are the daemon's side.
"""
