"""The compaction engines as sessions use them, one module an engine."""
