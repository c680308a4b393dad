"""The comparison with other agents that ``make bench-peers`` prints."""
