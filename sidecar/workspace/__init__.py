"""The files as they are now: unsaved buffers first, the disk second, and what the model has read of them."""
