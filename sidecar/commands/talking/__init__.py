"""``sidecar chat``: its two forms, in a terminal and line by line."""
