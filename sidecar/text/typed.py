"""The part of a prompt that its user typed: without code, quotations, attached files, logs and pasted talk.

A sentence in a pasted README or in the output of a tool is not a wish of the user, so nothing that an engine
holds the model to may come from it. A paste is told from typing by its shape alone, line by line:

* blocks between code fences, or between tags that stand on lines of their own, as attached files do;
* lines that begin with a mark of a quotation, a shell, a log, a listing, a diff, a comment or a speaker of a
  transcript, and lines that are indented like code;
* the paragraph after a line such as "The log says:";
* text within double quotes.

All of these characters become dots, so that each place in the result is the same place in the prompt. The
work is linear in the length of the text.

For example, ``Fix it. The log says "never retry".`` becomes ``Fix it. The log says ·············.``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

_HIDDEN: Final = "·"
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_TAG: Final = re.compile(r"\s*<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,400})?>\s*\Z")
_PASTED: Final = re.compile(
    r"\s*(?:>|»|\||\$ |>>> |// ?|/\*|\*/|<!--|@@|diff |--- |\+(?=[^\s\d])"
    r"|\d{2,6}:\s|\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d|\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b"
    r"|\[[^\]\n]{1,40}\]: |(?:From|To|Cc|Subject|Date|Sent): "
    r"|(?:user|assistant|system|human|agent|you|ai|tool)(?:\.\w{1,20})?: )"
    r"|(?:    |\t)\s*(?![-*•\s]|\d+[.)])"
)
_INTRODUCTION: Final = re.compile(
    r"\b(?:says?|said|wrote|writes|reads?|prints?|printed|outputs?|logs?|logged|e-?mails?|readme|transcripts?"
    r"|traceback|article|chat|pasted?|quot\w{1,5}|sagt\w{0,2}|schreibt|schrieb|ausgabe|dice|dijo|dit|écrit)\b"
    r"[^\n]{0,40}:\s*\Z",
    re.IGNORECASE,
)
_OWN_LIST: Final = re.compile(
    r"\b(?:rule|guideline|convention|constraint|requirement|instruction)s?\b", re.IGNORECASE
)
"""Words by which the user introduces a list of wishes, and no paste."""
_QUOTED: Final = re.compile(
    r'"[^"\n]{1,1000}"|“[^”]{1,1000}”|„[^“”]{1,1000}[“”]|«[^»]{1,1000}»|「[^」]{1,1000}」|『[^』]{1,1000}』'
)


def hide_pasted_text(text: str) -> str:
    """Return *text* with a dot for each character that its user did not type; line ends stay.

    >>> hide_pasted_text("Look:\\n> never push\\nNever commit.")
    'Look:\\n············\\nNever commit.'
    """
    lines = text.split("\n")
    last_at = {line.strip(): index for index, line in enumerate(lines)}
    shown: list[str] = []
    closing = ""
    paste: Literal["none", "follows", "open"] = "none"
    for index, line in enumerate(lines):
        is_hidden = bool(closing) or _PASTED.match(line) is not None
        if closing:
            closing = "" if line.strip().startswith(closing) else closing
        elif (fence := _FENCE.match(line)) is not None:
            closing, is_hidden = fence[1], True
        elif (tag := _TAG.match(line)) is not None and last_at.get(f"</{tag[1]}>", -1) > index:
            closing, is_hidden = f"</{tag[1]}>", True
        elif not line.strip():
            paste = "none" if paste == "open" else paste
        elif paste != "none":
            paste, is_hidden = "open", True
        elif (
            not is_hidden
            and line.rstrip().endswith(":")
            and _INTRODUCTION.search(line[-200:])
            and not _OWN_LIST.search(line[-200:])
        ):
            paste = "follows"
        shown.append(_HIDDEN * len(line) if is_hidden else line)
    return _QUOTED.sub(lambda found: re.sub(r"[^\n]", _HIDDEN, found[0]), "\n".join(shown))


def find_typed_sentences(text: str, boundary: re.Pattern[str], wanted: re.Pattern[str]) -> Iterator[str]:
    """Yield the sentences of *text* with *wanted* in words that the user typed, quotations in them included.

    Args:
        text: a prompt.
        boundary: the end of a sentence, with the blanks behind it.
        wanted: the pattern to look for.

    >>> list(find_typed_sentences('Never "push. now". Go.', re.compile(r"(?<=[.]) "), re.compile("Never")))
    ['Never "push. now".']
    """
    typed, start = hide_pasted_text(text), 0
    for end in (*boundary.finditer(typed), None):
        stop = len(text) if end is None else end.start()
        if wanted.search(typed, start, stop):
            yield text[start:stop].strip("-* \t")
        start = stop if end is None else end.end()
