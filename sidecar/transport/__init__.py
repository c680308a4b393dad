"""Bytes in and out of the process, for every face: streams, the queue of what goes out, and when to end."""
