"""The room for text: readings and cuts of text that every room above shares, the engines included.

``shell`` reads command lines and ``touches`` tells the files that they use; ``calls`` has the effects of tool
calls and the files that they touch, and ``results`` reads their results. Nothing here does I/O, waits or
knows a session.
"""
