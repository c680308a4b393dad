"""The transport: byte streams, JSON-RPC connections over them, and the lifetime of the process."""
