"""Sessions of other agents: found where those agents keep them, read, and mapped to entries.

A format is one pure module that turns the records of a file into calls of :class:`ImportBuilder`, which
repairs and counts. :mod:`~sidecar.importing.finding` and :mod:`~sidecar.importing.reading` do the input; both
block, so their callers run them in a thread.
"""
