"""What a connection may ask, once for both faces: one handler a method, over the hub."""
