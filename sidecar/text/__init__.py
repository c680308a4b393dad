"""The room for text: readings and cuts of text that every room above shares, the engines included.

``shell`` reads command lines. Nothing here does I/O, waits or knows a session.
"""
