"""The language of a text, as far as its script and its commonest words tell, and words of negation in any."""

from __future__ import annotations

import re
from typing import Final

_SCRIPTS: Final = (
    ("Japanese", re.compile(r"[\u3040-\u30ff]")),
    ("Korean", re.compile(r"[\uac00-\ud7af]")),
    ("Chinese", re.compile(r"[\u4e00-\u9fff]")),
    ("Russian", re.compile(r"[\u0400-\u04ff]")),
)
"""In this order: Japanese text holds Chinese characters as well."""

_COMMON_WORDS: Final = {
    "English": "the and is to of in that it for was with this on are be not have you i we",
    "German": "der die das und ist nicht ein eine zu mit den von im für auf wird ich wir sich auch",
    "Spanish": "el la los las que y en un una por con para no es se del lo como está más",
    "French": "le la les des et est une dans que pour pas sur au avec du ce il je nous sont",
    "Portuguese": "o os que e em um uma não para com do da no na por se mais foi está ao",
    "Italian": "il lo gli che e di un una per non con del della è sono nel come più anche ma",
}
_WORDS: Final = {language: frozenset(words.split()) for language, words in _COMMON_WORDS.items()}
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|\S*[/_\\.=(){}<>:]\S+", re.DOTALL)
_WORD: Final = re.compile(r"[^\W\d_]+")

MIN_LETTERS = 60
SCRIPT_SHARE = 0.3
"""A text of at least so many letters is in the language of a script that has this share of them."""

LEAD = 1.5
"""How much more common words of one language than of any other must stand in a text to name it."""

NEGATION: Final = re.compile(
    r"\b(?:not?|never|skip|don'?t|doesn'?t|mustn'?t|cannot|can'?t|without|avoid|forbidden|nicht|nie|niemals|keine?\w?|ohne"
    r"|nunca|jamás|sin|jamais|pas|rien|aucune?|sans|não|sem|non|mai|senza|не|никогда|нельзя|без|nie|nigdy"
    r"|niet|nooit|geen|aldrig|inte|ikke)\b|不|勿|禁止|别|ない|禁|말|마세요|지 ?마|면 안|금지",
    re.IGNORECASE,
)
"""Words that forbid or deny."""


def language_of(text: str) -> str | None:
    """Return the English name of the language of *text*, None where it is too short or not clear.

    Code, paths and names do not count.

    >>> language_of("Der Parser ist nicht schnell genug, und wir wissen auch warum: das Lesen der Zeilen.")
    'German'
    >>> language_of("ok") is None
    True
    """
    words = _WORD.findall(_CODE.sub(" ", text).lower())
    letters = "".join(words)
    for language, script in _SCRIPTS:
        found = len(script.findall(letters))
        # One such character says as much as two or three letters.
        if found * 3 >= MIN_LETTERS and found >= SCRIPT_SHARE * len(letters):
            return language
    if len(letters) < MIN_LETTERS:
        return None
    counts = sorted(
        ((sum(word in known for word in words), language) for language, known in _WORDS.items()), reverse=True
    )
    (most, language), (next_most, _) = counts[:2]
    return language if most >= 3 and most >= LEAD * next_most else None
