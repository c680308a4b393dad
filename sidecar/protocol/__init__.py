"""The wire as data: the method table, its messages, their codec, the framing and the error codes."""
