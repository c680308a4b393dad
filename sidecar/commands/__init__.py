"""The commands of the command line: one module for each, loaded when it is called, and their shared parts."""
