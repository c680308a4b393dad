"""Permissions: which actions of tools run unasked, which ask, and how far an answer "always" reaches.

``shell`` reads command lines, ``table`` lists the known programs, ``commands`` compares the two, and
``policy`` decides about every kind of action by mode, rules, answers and table. Nothing here asks anybody
or runs anything.
"""
