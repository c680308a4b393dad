"""The check of a model's note, without another model call.

An answer that is short and a refusal or a remark to the user, that ends before its last heading, or that is
not in the user's language, is no note: then the model is asked once more, with the reason. A short answer in
words of its own is a note, for another call costs more than the gaps of a note above the chronicle. Three
kinds of lines are dropped from a note:

* lines with a path, a command, a hash, a version or a number of three digits that the model was not shown,
* lines that say a rule of the user in other words: the rule stands in its own words, and a paraphrase may
  turn it round,
* lines that turn two names round: "A rather than B" where only "B rather than A" was said.

A note of over 800 tokens is thinned to its telling lines; its headings stay. The check knows shapes and not
truth: a wrong sentence in plain words passes, and the chronicle below it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from sidecar.chronicle import measure_telling
from sidecar.text.clip import clip

NOTE_CHARS: Final = 3_200
"""The characters of the longest note, about 800 tokens."""

SHORT_CHARS: Final = 600
"""A longer answer is no mere refusal or remark, whatever it begins with."""

SHORT_WORD: Final = 4
LEAST_WORDS: Final = 10
LEAST_SHARED: Final = 0.25
"""Of its words of up to four letters a text shares so many with another text of its language."""

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
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|\S*[/_\\.=(){}<>:]\S+", re.DOTALL)
_WORD: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]+")
"""A word, or a character of a script that writes no blanks between words."""

_FOUNDED: Final = re.compile(
    r"`([^`\n]{3,200})`"
    r"|((?<![\w.~/])(?:(?:~|\.{1,2})?/(?:[\w.@-]{1,80}/){0,12}[\w.@-]{2,80}"
    r"|(?:[\w.@-]{1,80}/){1,12}[\w@-][\w.@-]{0,80}\.[A-Za-z]\w{0,9}\b))"
    r"|(?<![\w./])([\w-]{2,60}\.[a-z][a-z0-9]{1,4})(?![\w/])"
    r"|\b((?=[0-9a-f]{0,39}\d)(?=\d{0,39}[a-f])[0-9a-f]{7,40})\b"
    r"|\bv?(\d{1,6}\.\d{1,6}\.\d{1,6}[\w.-]{0,20})"
    r"|(?<![\w.,#])(\d{3,12}|\d{1,6}\.\d{1,6})(?![\w,]|\.\d)"
)
"""Names that a note must have from the text it stands for: code, paths, files, hashes, versions, numbers.

A path has a suffix, or begins at a root or a folder; words with a slash between them ("read/write") are none.
"""


_JOINED: Final = tuple(
    re.compile(rf"(?=(?<![\w./@-])([\w./@-]{{1,60}})(,? {words}| ?(?:->|=>|→) ?)([\w./@-]*\w))")
    for words in (r"[^\W\d_]+ ", r"[^\W\d_]+ [^\W\d_]+ ")
)
"""Two names and what joins them: an arrow, or one or two words."""

LEAST_JOINING: Final = 4
"""Words that are all shorter join names in any order, as "and the" does."""


def find_fault(reply: str, headings: Sequence[str] = (), typed: str = "") -> str | None:
    """Return why *reply* is no note at all, as the end of a sentence; None where it may be one.

    Args:
        reply: the model's answer.
        headings: the headings it was asked for, without their marks. A note may have other ones, but one that
            begins with the first must come to the last ones.
        typed: the newest words of the user, empty for unknown.

    >>> find_fault("I cannot help with that.")
    'it is a refusal'
    >>> find_fault("# Objective\\nship it", ["Objective", "Rationale", "Plan"])
    'it ends before its last heading'
    """
    if reply.strip() and not any(map(str.isalpha, reply)):
        return "it has no words"
    found = [each.casefold() for each in _HEADING.findall(reply)]
    present = [any(each.startswith(heading.casefold()) for each in found) for heading in headings]
    if len(reply) < SHORT_CHARS and not any(present):
        if _REFUSAL.match(reply):
            return "it is a refusal"
        if _REMARK.match(reply):
            return "it answers the user instead of summarising"
    if present and present[0] and not any(present[-2:]):
        return "it ends before its last heading"
    if is_in_other_language(_HEADING.sub("", reply), typed):
        return "it is not in the language of the user's prompts"
    return None


def is_in_other_language(text: str, typed: str) -> bool:
    """Whether few of the short words of *text* are among the *typed* ones; False where one is too short.

    The short words of a language are its commonest ones, and few of another language's are among them.

    >>> typed = "der Parser ist nicht schnell und wir wissen warum denn das Lesen ist es auch in der Tat so"
    >>> is_in_other_language("the slow part is the reading of the file and so we can do it for it", typed)
    True
    """
    known = set(short_words(typed))
    words = short_words(text)
    if len(known) < LEAST_WORDS or len(words) < LEAST_WORDS:
        return False
    return sum(word in known for word in words) < LEAST_SHARED * len(words)


def short_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(_CODE.sub(" ", text).casefold()) if len(word) <= SHORT_WORD]


def drop_unfounded(
    note: str, occurs: Callable[[str], bool], rules: Iterable[str] = (), shown: str = ""
) -> tuple[str, tuple[str, ...]]:
    """Return *note* without the lines that may not stand, and those lines with the reason.

    Args:
        note: a model's note.
        occurs: whether a text stands in the shown ones.
        rules: the user's rules.
        shown: the shown texts as :func:`plain_text` has them.

    >>> drop_unfounded("- fixed src/a.py\\n- fixed src/b.py", "we fixed src/a.py".__contains__)
    ('- fixed src/a.py', ('- fixed src/b.py: src/b.py occurs nowhere',))
    """
    stated = [(rule, _stems(rule)) for rule in rules]
    kept: list[str] = []
    dropped: list[str] = []
    for line in note.split("\n"):
        missing = next((name for name in names_in(line) if not is_founded(name, occurs)), None)
        rule = None if line.startswith("#") else find_paraphrased(line, stated)
        turned = find_turned_round(line, shown)
        if missing is not None:
            dropped.append(f"{line.strip()}: {missing} occurs nowhere")
        elif rule is not None:
            dropped.append(f"{line.strip()}: the rule is: {rule}")
        elif turned is not None:
            dropped.append(f"{line.strip()}: it was said: {turned}")
        else:
            kept.append(line)
    return "\n".join(kept), tuple(dropped)


def find_paraphrased(line: str, rules: Iterable[tuple[str, frozenset[str]]]) -> str | None:
    """Return the rule that *line* says in other words; None for none.

    Args:
        line: a line of a note.
        rules: the rules, each with the beginnings of its words.
    """
    words = _stems(line)
    plain = plain_text(line)
    for rule, stems in rules:
        shared = len(stems & words)
        is_about_it = 3 * shared >= 2 * len(stems) and len(words) <= 2 * len(stems) + 2
        if len(stems) > 1 and is_about_it and plain_text(rule).rstrip(".!。") not in plain:
            return rule
    return None


def plain_text(text: str) -> str:
    """Return *text* in small letters, with one blank for each run of them."""
    return " ".join(text.casefold().split())


def find_turned_round(line: str, shown: str) -> str | None:
    """Return the words that *line* turns round, such as "a over b" for "b over a"; None for none.

    >>> find_turned_round("We chose SQLite over Postgres.", "i took postgres over sqlite, as it locks rows")
    'postgres over sqlite'
    """
    for joined in _JOINED:
        for one, joint, other in joined.findall(plain_text(line)):
            joining = max(map(len, re.findall(r"[^\W\d_]+", joint)), default=LEAST_JOINING)
            if one == other or joining < LEAST_JOINING:
                continue
            turned = f"{other}{joint}{one}"
            if turned in shown and f"{one}{joint}{other}" not in shown:
                return turned
    return None


def shorten_note(note: str) -> str:
    """Return the headings and the telling lines of *note* in about 800 tokens, of a line the beginning."""
    if len(note) <= NOTE_CHARS:
        return note
    lines = note.split("\n")
    tellings, room, kept = measure_telling(lines), NOTE_CHARS, list[int]()
    for at in sorted(
        range(len(lines)), key=lambda at: (lines[at].startswith("#"), tellings[at]), reverse=True
    ):
        if len(lines[at]) < room:
            room -= len(lines[at]) + 1
            kept.append(at)
    return "\n".join(lines[at] for at in sorted(kept)).strip() or clip(note, NOTE_CHARS)


def _stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words of *text* that have four letters or more, or stand for a word."""
    words = _WORD.findall(text.casefold())
    return frozenset(word[:4] for word in words if len(word) > 3 or not word.isascii())


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
