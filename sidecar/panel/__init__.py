"""The panel: a page of its own for a conversation, served to this user's browser on the loopback interface.

``page/`` is plain JavaScript that runs in a browser and in the view of the VS Code extension alike. It speaks
the daemon's protocol itself; nothing here knows a method or an event.
"""
