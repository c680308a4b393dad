"""Models behind one contract: catalogue, channels, the embedded model and the fake."""
