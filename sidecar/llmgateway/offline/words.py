"""Word lists: what says nothing in a question, and how files are named. Data only."""

from __future__ import annotations

from typing import Final

__all__ = ["FILE_EXTENSIONS", "FILE_NAMES", "STOP_WORDS"]

FILE_NAMES: Final = frozenset({"CHANGELOG", "Dockerfile", "Justfile", "LICENSE", "Makefile", "README"})
"""Files that are known without an extension."""

_EXTENSIONS: Final = """
bash c cc cfg clj cpp cs css csv dart el env ex exs go gradle graphql h hpp hs html ini ipynb java
jl js json  jsonl jsx kt less lock log lua md mdx mjs ml php pl proto ps1 py pyi r rb rs rst sass
scala scss sh sql  svelte swift tex toml ts tsx txt vim vue xml yaml yml zig zsh
"""
FILE_EXTENSIONS: Final = frozenset(_EXTENSIONS.split())
"""What follows the last dot of a file's name, in lower case."""

_STOP: Final = """
about above after again also always and another any are around because been before being below
between both  can cannot change check code could describe does doing done each either else ever
every example explain file  files find first from function give goes going have help here how into
its just know later leave like line  lines list look looking made make many maybe mean might more
most much must need never next none only other  over please project read really repository same
search second shall should show some something still such  summarise summarize sure take tell than
thank that their them then there these they thing things this those  through under until used uses
using very want well were what when where whether which while who whole whom  whose why will with
within without word words work works would write your yours
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""English words of four letters or more that are not worth a search, and a few shorter ones."""
