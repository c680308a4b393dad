"""The files as they are now: unsaved buffers first, the disk second, and the record of reads."""
