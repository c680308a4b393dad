"""What the command line can do, one module a command. Each has ``run(options) -> exit code``."""
