"""The tool kernel: the tools that a model may call on this machine, and the box that runs them."""
