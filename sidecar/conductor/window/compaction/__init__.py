"""The compactions of a session: judged, planned, prepared, run, taken back, and the report of each."""
