"""The requests of every connection, answered once for both front ends: one handler for each method."""
