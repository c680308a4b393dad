"""The record of a session: its history, event log, stored records and queue."""
