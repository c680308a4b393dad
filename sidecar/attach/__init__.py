"""One daemon for several clients: where it is found, who may reach it, how it is started and shared.

What a shim needs (``errors``, ``place``, ``lock``, ``credentials``, ``reach``, ``shim``) is loaded in a few
milliseconds: it imports neither asyncio nor dataclasses. The daemon's side is in the other modules.
"""
