"""Sessions in PostgreSQL: one writer a session over machines, readers anywhere. The extra ``postgres``."""
