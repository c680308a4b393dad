"""Knowledge with an index: the files of a workspace, and the messages of stored sessions.

Drivers over SQLite's full-text search. The lists of files and the stored sessions are their callers'.
"""
