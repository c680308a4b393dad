"""The check of a model's summary, without another model call.

A model that is asked for a summary may refuse, answer the user instead, stop in the middle, or write in
another language than the user's: then it is asked once more, with the reason. In a summary that stands, lines
with a path, a command, a hash or a version that occurs nowhere in the text it stands for are dropped, and
lines that turn one of the user's rules round. Nothing else is changed.

The check knows shapes and not truth: a wrong sentence in plain words passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from sidecar.window_budget.language import language_of
from sidecar.window_budget.rules import find_turned, state

SHORT_CHARS = 600
"""A longer answer is no mere refusal or remark, whatever it begins with."""

_REFUSAL: Final = re.compile(
    r"\W{0,5}(?:i(?:'m| am) (?:sorry|afraid|unable|not able)|sorry\b|i (?:can(?:'t|not)|won't|will not)\b"
    r"|i must decline|i apologi[sz]e|apologies|i do(?:n't| not) (?:have|see) (?:any|a|the)|unfortunately"
    r"|as an ai\b|unable to\b|this (?:content|request) (?:violates|can(?:'t|not))"
    r"|es tut mir leid|leider|ich kann (?:das|dabei|dir|ihnen|hier)?\s?nicht|lo siento|no puedo|désolé"
    r"|je ne peux pas|desculpe|não posso|mi dispiace|non posso|извините|к сожалению|я не могу"
    r"|抱歉|对不起|很遗憾|我(?:无法|不能)|申し訳|残念ながら|죄송|도와드릴 수 없)",
    re.IGNORECASE,
)
_REMARK: Final = re.compile(
    r"[^\w*•-]{0,5}(?:(?:sure|of course|certainly|okay|ok|great|got it|done|all ?right|absolutely|understood"
    r"|thanks?|hello|hi|hey|you're welcome|happy to|glad to|natürlich|klar|gerne|fertig|erledigt|hallo|claro"
    r"|por supuesto|hecho|listo|hola|bien sûr|d'accord|voilà|bonjour|certo|fatto|ciao|feito|pronto|olá"
    r"|конечно|хорошо|понял|готово|привет)\b"
    r"|(?:i(?:'ve|'ll|'m|'d| have| will| am| would| can| just)|let me|let's|(?:now|next),? i"
    r"|here(?:'s| is| are) (?:the|your|an?) (?!(?:short |brief )?(?:summary|digest|notes?|recap|overview))"
    r"|ich (?:hab\w?|werde|kann|bin)|j'ai|je (?:vais|suis|peux)|he \w+[aei]do|voy a|puedo|eu|terminei|vou"
    r"|ho \w+[aeiu]t[oa]|я)\b"
    r"|好的|当然|明白|你好|我(?:已|将|会|来|可以|现在|刚|把)|はい|わかりました|承知|こんにちは|私(?:は|が)"
    r"|네|알겠습니다|제가|저는)"
    r"|(?s:.){0,600}[?？]\W{0,5}\Z",
    re.IGNORECASE,
)
"""The beginning of an answer to the user: an assent, a greeting, a first person. A question ends one, too."""
_HEADING: Final = re.compile(r"^#{1,6}\s*(\S.*?)\s*$", re.MULTILINE)
_FOUNDED: Final = re.compile(
    r"`([^`\n]{3,200})`"
    r"|((?<![\w.~/])(?:(?:~|\.{1,2})?/(?:[\w.@-]{1,80}/){0,12}[\w.@-]{2,80}"
    r"|(?:[\w.@-]{1,80}/){1,12}[\w@-][\w.@-]{0,80}\.[A-Za-z]\w{0,9}\b))"
    r"|\b([\w-]{1,60}\.(?:pyi?|jsx?|tsx?|rs|go|java|kt|cc?|hp?p?|cpp|cs|rb|php|lua|sh|sql"
    r"|md|json|toml|ya?ml))\b"
    r"|\b((?=[0-9a-f]{0,39}\d)(?=\d{0,39}[a-f])[0-9a-f]{7,40})\b"
    r"|\bv?(\d{1,6}\.\d{1,6}\.\d{1,6}[\w.-]{0,20})"
)
"""Names that a summary must have from the text it stands for: code, paths, files, hashes, versions.

A path has a suffix, or begins at a root or a folder; words with a slash between them ("read/write") are none.
"""


def find_fault(reply: str, headings: Sequence[str] = (), language: str | None = None) -> str | None:
    """Return why *reply* is no summary at all, as the end of a sentence; None where it may be one.

    Args:
        reply: the model's answer.
        headings: the headings it was asked for, without their marks. A summary may have other ones, but one
            that begins with the first must come to the last ones.
        language: the language that the user writes, None for unknown.

    >>> find_fault("I cannot help with that.")
    'it is a refusal'
    >>> find_fault("# Objective\\nship it", ["Objective", "Rationale", "Plan"])
    'it ends before its last heading'
    """
    if reply.strip() and not any(map(str.isalpha, reply)):
        return "it has no words"
    found = [each.casefold() for each in _HEADING.findall(reply)]
    present = [any(each.startswith(heading.casefold()) for each in found) for heading in headings]
    is_short = len(reply) < SHORT_CHARS
    if is_short and not any(present) and _REFUSAL.match(reply):
        return "it is a refusal"
    if is_short and not any(present) and _REMARK.match(reply):
        return "it answers the user instead of summarising"
    if present and present[0] and not any(present[-2:]):
        return "it ends before its last heading"
    written = language_of(_HEADING.sub("", reply)) if language else None
    if written is not None and written != language:
        return f"it is written in {written} and not in {language}"
    return None


def drop_unfounded(
    digest: str, occurs: Callable[[str], bool], rules: Iterable[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return *digest* without the lines that cannot be true, and those lines with the reason.

    Args:
        digest: a model's digest.
        occurs: whether a text stands in the messages that the digest is made of.
        rules: the user's rules, which no line may turn round.

    >>> drop_unfounded("- fixed src/a.py\\n- fixed src/b.py", "we fixed src/a.py".__contains__)
    ('- fixed src/a.py', ('- fixed src/b.py: src/b.py occurs nowhere',))
    """
    stated = [each for rule in rules for each in state(rule, is_rule=True)]
    kept: list[str] = []
    dropped: list[str] = []
    for line in digest.split("\n"):
        missing = next((name for name in names_in(line) if not is_founded(name, occurs)), None)
        turned = None if line.startswith("#") else find_turned(line, stated)
        if missing is not None:
            dropped.append(f"{line.strip()}: {missing} occurs nowhere")
        elif turned is not None:
            dropped.append(f"{line.strip()}: the rule is: {turned.text}")
        else:
            kept.append(line)
    return "\n".join(kept), tuple(dropped)


def names_in(line: str) -> Iterator[str]:
    """Yield the code, paths, files, hashes and versions that *line* names; a heading names none."""
    if line.startswith("#"):
        return
    for found in _FOUNDED.finditer(line):
        yield next(filter(None, found.groups())).rstrip(".,:;)")


def is_founded(name: str, occurs: Callable[[str], bool]) -> bool:
    """Whether *name* occurs; a path may by its last parts, and a command by its words."""
    if occurs(name) or occurs(name.lstrip("./~")):
        return True
    if "/" in name and " " not in name:
        return occurs("/".join(name.rstrip("/").rsplit("/", 2)[-2:]))
    words = re.findall(r"[\w./-]{3,}", name)
    return len(words) > 1 and all(map(occurs, words))
