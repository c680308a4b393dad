"""Budget arithmetic: what messages cost, when there are too many, where to cut."""
