"""The window of a session: the request to the model, its weight, the engines and the compactions."""
