"""The workbench of a session: files, tools, permissions, checkpoints, editor and extensions."""
