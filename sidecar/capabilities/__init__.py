"""The tool kernel: what the model may do on this machine, one file a tool."""
