"""Edits as models give them, with the small mistakes of copying, and the text that each must make.

Ten texts of our own in as many languages, two edits in each, and sixteen ways to err.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

TEXTS: Final[dict[str, tuple[str, tuple[int, int, str, str], tuple[int, int, str, str]]]] = {
    "python": (
        """\
import json


class Café:
    \"\"\"A café – open late.\"\"\"

    def __init__(self, name: str) -> None:
        self.name = name  # “the” name
        self.guests = []

    def greet(self, guest: str) -> str:
        if guest in self.guests:
            return "déjà vu – " + guest

        self.guests.append(guest)
        return "welcome " + guest
""",
        (11, 16, 'self.guests.append(guest)\n        return "welcome', "self.add(guest)\n        return"),
        (6, 9, "self.guests = []", "self.guests = []\n        self.seats = 4"),
    ),
    "go": (
        """\
package naïve

import "fmt"

// Sum adds – slowly – all of it.
func Sum(values []int) (total int) {
\tfor _, value := range values {
\t\tif value < 0 {
\t\t\tfmt.Println("été – no")
\t\t\tcontinue
\t\t}

\t\ttotal += value
\t}
\treturn total
}
""",
        (7, 13, "total += value", "total += value\n\t\tcount++"),
        (4, 9, "value < 0", "value <= 0"),
    ),
    "typescript": (
        """\
export class Panel {
  private title = 'Überblick – all';

  constructor(private readonly host: Host) {}

  async open(id: string): Promise<void> {
    const view = await this.host.find(id);
    if (!view) {
      throw new Error("no view – “" + id + "”, là");
    }

    view.show({ focus: true });
  }
}
""",
        (5, 9, "no view", "there is no view"),
        (7, 12, "view.show({ focus: true });", "view.show();\n    this.opened += 1;"),
    ),
    "rust": (
        """\
use std::io;

/// Reads – and counts – the “naïve” way.
pub fn count(input: &str) -> io::Result<usize> {
    let mut total = 0;
    for line in input.lines() {
        if line.starts_with("é –") {
            continue;
        }

        total += line.len();
    }
    Ok(total)
}
""",
        (3, 7, "let mut total = 0;", "let mut total = 1;"),
        (5, 11, "total += line.len();", "if line.is_empty() {\n            break;\n        }"),
    ),
    "c": (
        """\
#include <stdio.h>

/* “main” – à la carte */
int main(int argc, char **argv)
{
\tint i;

\tfor (i = 1; i < argc; i++) {
\t\tif (argv[i][0] == '-')
\t\t\tcontinue;
\t\tprintf("é – %s\\n", argv[i]);
\t}
\treturn 0;
}
""",
        (7, 12, "continue;", "break;"),
        (2, 7, "int i;", "int i, n = 0;"),
    ),
    "ruby": (
        """\
module Forêt
  # Trees – “all” of them.
  class Tree
    attr_reader :rings

    def grow(years = 1)
      years.times do |year|
        @rings << "année – #{year}"
      end

      self
    end
  end
end
""",
        (6, 11, "self", "@rings.size\n      self"),
        (1, 4, ":rings", ":rings, :height"),
    ),
    "yaml": (
        """\
name: “déploiement” – all
on:
  push:
    branches:
      - main
jobs:
  build:
    env:
      GREETING: "ça va – oui"

    steps:
      - run: make
        name: “Étape” – one
""",
        (6, 11, "steps:", "timeout: 5\n    steps:"),
        (0, 5, "- main", "- main\n      - next"),
    ),
    "html": (
        """\
<main>
    <h1 class="tête">Hello – “world”</h1>

    <ul>
        <li>one</li>
        <li title="fenêtre – open">two</li>
    </ul>
    <p>the end</p>
</main>
""",
        (1, 6, "<li>one</li>", "<li>first</li>"),
        (3, 7, "two</li>", "two</li>\n        <li>three</li>"),
    ),
    "shell": (
        """\
#!/bin/sh
# “build” – and père
set -eu

build() {
    for name in a b; do
        echo "forêt – $name"
        if [ -e "$name" ]; then
            make "$name"
        fi
    done

    echo done
}
""",
        (4, 9, 'make "$name"', 'make -j2 "$name"'),
        (5, 13, "echo done", "echo finished"),
    ),
    "markdown": (
        """\
# Größe – “eins”

- first – item
    - its “child”
    - another one

- second point, à part
    - last “of” all – here

The end – “fin”, voilà.
""",
        (2, 6, "another one", "another two"),
        (6, 10, "The end", "An end"),
    ),
}  # fmt: skip
"""Each text with its edits: the first line, the last (exclusive), a text there and its replacement."""


@dataclass(frozen=True, slots=True)
class DriftedEdit:
    """A file, an edit of it as a model gives it, and the file as it must become."""

    text: str
    old: str
    new: str
    becomes: str

    def copied_as(self, change: Callable[[str], str]) -> DriftedEdit:
        """Return the edit of a model that changes what it copies."""
        return replace(self, old=change(self.old), new=change(self.new))


def swap_indents(part: str) -> str:
    if "\n\t" in part or part.startswith("\t"):
        return re.sub("^\t+", lambda found: "    " * len(found[0]), part, flags=re.MULTILINE)
    return re.sub("^ +", lambda found: "\t" * (len(found[0]) // 2), part, flags=re.MULTILINE)


def shift(edit: DriftedEdit) -> DriftedEdit:
    """Take the indentation away; a passage that has none gets some instead."""
    margin = re.match(r"[ \t]*", edit.old)
    if margin is not None and margin[0]:
        return edit.copied_as(lambda part: re.sub(f"^{margin[0]}", "", part, flags=re.MULTILINE))
    return edit.copied_as(lambda part: textwrap.indent(part, "    "))


def paste_numbers(edit: DriftedEdit, form: str = "{:>6}\t") -> DriftedEdit:
    first = edit.text[: edit.text.index(edit.old)].count("\n") + 1

    def number(part: str) -> str:
        return "".join(
            f"{form.format(n)}{line}" for n, line in enumerate(part.splitlines(keepends=True), first)
        )

    return edit.copied_as(number)


def add_blanks(text: str) -> str:
    return re.sub(r"(?<=\S)\n", "  \n", text)


def leave_out_blanks(edit: DriftedEdit) -> DriftedEdit:
    """The file has blanks at the ends of its lines; the model does not see them."""
    if edit.old.count("\n") != edit.new.count("\n"):
        return edit
    return replace(edit, text=add_blanks(edit.text), becomes=add_blanks(edit.becomes))


def end_early(edit: DriftedEdit) -> DriftedEdit:
    """The file ends without a line end; the model gives one."""
    if not edit.text.endswith(edit.old):
        return edit
    return replace(edit, text=edit.text.removesuffix("\n"), becomes=edit.becomes.removesuffix("\n"))


DRIFTS: Final[dict[str, Callable[[DriftedEdit], DriftedEdit]]] = {
    "trailing blanks": lambda edit: edit.copied_as(add_blanks),
    "trailing blanks of the file": leave_out_blanks,
    "tabs and spaces": lambda edit: edit.copied_as(swap_indents),
    "indentation": shift,
    "straight quotes": lambda edit: edit.copied_as(lambda part: re.sub("[“”]", '"', part)),
    "curly quotes": lambda edit: edit.copied_as(lambda part: re.sub('"([^"\n]*)"', "“\\1”", part)),
    "dashes": lambda edit: edit.copied_as(lambda part: part.replace("–", "-")),
    "special spaces": lambda edit: edit.copied_as(lambda part: re.sub(r"(?<=\w) (?=\w)", "\u00a0", part)),
    "decomposed letters": lambda edit: edit.copied_as(lambda part: unicodedata.normalize("NFD", part)),
    "line numbers": paste_numbers,
    "line numbers and a bar": lambda edit: paste_numbers(edit, "{:>4} | "),
    "line numbers with a letter": lambda edit: paste_numbers(edit, "L{}: "),
    "extra blank lines": lambda edit: edit.copied_as(lambda part: part.replace("\n", "\n\n", 1)),
    "blank lines left out": lambda edit: edit.copied_as(lambda part: part.replace("\n\n", "\n")),
    "missing last newline": end_early,
    "two at once": lambda edit: shift(edit).copied_as(add_blanks),
}


def drift_edits() -> Iterator[tuple[str, DriftedEdit]]:
    """Yield each edit that a drift changes, with a name."""
    for language, (text, *edits) in TEXTS.items():
        lines = text.splitlines(keepends=True)
        for first, last, passage, becomes in edits:
            old = "".join(lines[first:last])
            new = old.replace(passage, becomes, 1)
            assert text.count(old) == 1, f"{language}: the passage must occur once"
            assert new != old, f"{language}: {passage!r} is not in the passage"
            edit = DriftedEdit(text, old, new, text.replace(old, new))
            for name, drift in DRIFTS.items():
                if (drifted := drift(edit)) != edit:
                    yield f"{language}-{first + 1}-{name}", drifted
