"""The choices that a rule makes among values that exclude each other, such as tabs and spaces.

"Use tabs" and "use spaces" share no word, so that no comparison of words finds the contradiction. Two ways
find it. A short table lists values of which a project uses one, in the languages that rules are found in:
indentation, quotes, line ends, the spelling of names, the package manager of JavaScript, the language of the
answers. Beyond the table, the form "use X for Y" shows the slot Y and its value X.

A choice is a *slot* and a *value*. Two demands of one slot with different values contradict each other. The
slot holds the other words of the demand as well, without the words of the topic: "use spaces around
operators" and "use tabs in Makefiles" are two slots beside "indent with spaces", and nothing contradicts.
A clause with two values of the table says nothing, unless it names one of them in place of the other.

Cost: linear in the clause. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Final

from sidecar._internal.values import Value
from sidecar.window_budget.language import NEGATION

_TABLE: Final = {
    "indentation": (
        (
            r"indent\w*|einr(?:ü|ue)ck\w*|einger(?:ü|ue)ckt|sangr\w+|rientr\w+|отступ\w*|缩进|縮排|インデント|字下げ"
            r"|들여쓰기"
        ),
        (
            r"tabs?|tabulator\w*|tabulac\w+|tabulador\w*|tabulaç\w+|tabulation\w*|tabulazion\w+|табуляци\w*|таб(?:ы|ами|ов)"
            r"|制表符|タブ|탭"
        ),
        r"spaces?|leerzeichen|espacios?|espaces?|espaços?|spazi|пробел\w*|空格|スペース|空白|스페이스|공백",
    ),
    "quotes": (
        r"strings?|zeichenketten|cadenas|chaînes|строк\w*|字符串|文字列|문자열",
        (
            r"single[- ]quot\w+|einfache\w* anführungszeichen|comillas simples|guillemets simples"
            r"|aspas simples|virgolette singole|одинарн\w+ кавычк\w+|单引号|シングルクォート|작은따옴표"
        ),
        (
            r"double[- ]quot\w+|doppelte\w* anführungszeichen|comillas dobles|guillemets doubles|aspas duplas"
            r"|virgolette doppie|двойн\w+ кавычк\w+|双引号|ダブルクォート|큰따옴표"
        ),
    ),
    "line ends": (
        r"lines?|ends?|endings?|zeilenenden?|конц\w+|换行符|改行|줄바꿈",
        r"lf",
        r"crlf",
    ),
    "names": (
        r"names?|namen|nombres?|noms?|nomes?|имен\w*|命名|変数名|이름",
        "snake_case",
        "camelcase",
        "pascalcase",
        "kebab-case",
    ),
    "packages": (
        r"install|packages?|pakete?|paquetes?|paquets?|пакет\w*|依赖|パッケージ|패키지",
        "npm",
        "yarn",
        "pnpm",
        "bun",
    ),
    "answers": (
        (
            r"answers?|reply|replies|respond\w*|write|speak|antwort\w*|schreib\w*|sprich|contest\w*|escrib\w*"
            r"|répond\w*|écri\w+|escrev\w*|rispond\w*|scriv\w*|отвеча\w*|пиши\w*|回答|回复|答え\w*|返答|대답\w*|답변\w*"
        ),
        r"english|englisch|inglés|anglais|inglês|inglese|по-английски|английск\w+|英语|英文|英語|영어",
        r"german|deutsch|alemán|allemand|alemão|tedesco|по-немецки|немецк\w+|德语|德文|ドイツ語|독일어",
        (
            r"french|französisch|francés|français|francês|francese|по-французски|французск\w+|法语|法文"
            r"|フランス語|프랑스어"
        ),
        (
            r"spanish|spanisch|español|espagnol|espanhol|spagnolo|по-испански|испанск\w+|西班牙语|スペイン語"
            r"|스페인어"
        ),
        r"chinese|chinesisch|chino|chinois|chinês|cinese|по-китайски|китайск\w+|中文|汉语|中国語|중국어",
        (
            r"japanese|japanisch|japonés|japonais|japonês|giapponese|по-японски|японск\w+|日语|日文|日本語"
            r"|일본어"
        ),
        r"russian|russisch|ruso|russe|russo|по-русски|русск\w+|俄语|俄文|ロシア語|러시아어",
        (
            r"portuguese|portugiesisch|portugués|portugais|português|portoghese|по-португальски|葡萄牙语"
            r"|ポルトガル語|포르투갈어"
        ),
        r"korean|koreanisch|coreano|coréen|по-корейски|корейск\w+|韩语|韩文|韓国語|한국어",
    ),
}
"""The slots: the words of the topic, then each value."""

_FIRST_ASIAN: Final = "\u3040"
"""The first of the Chinese, Japanese and Korean characters."""


def _as_words(pattern: str) -> re.Pattern[str]:
    """Return a pattern of whole words, and of Chinese, Japanese and Korean words wherever they stand."""
    whole = [each for each in pattern.split("|") if max(each) < _FIRST_ASIAN]
    inside = [each for each in pattern.split("|") if max(each) >= _FIRST_ASIAN]
    return re.compile("|".join(filter(None, (rf"\b(?:{'|'.join(whole)})\b" if whole else "", *inside))))


_SLOTS: Final = {
    name: (_as_words(topic), tuple(_as_words(value) for value in values))
    for name, (topic, *values) in _TABLE.items()
}
_INSTEAD: Final = re.compile(
    r"\b(?:instead of|rather than|over|not|never|statt|anstatt|anstelle|nicht|nie|en lugar de|en vez de|no"
    r"|nunca|au lieu de|plutôt que|pas|jamais|em vez de|não|invece di|non|mai|вместо|а не|никогда)\b"
    r"|而不是|代替|不要|不用"
)
"""The value before these words is the chosen one."""
_USE_FOR: Final = re.compile(
    r"\b(?:use|using|prefer|verwende[nt]?|benutze[nt]?|nutze[nt]?|nimm|usa|usar|utiliza|utilise[rz]?"
    r"|используй(?:те)?|utilizza)\s+(?:only |always |nur |immer |solo |sólo |só |toujours |siempre |sempre "
    r"|только |всегда )?(?P<value>[\w.+#-]+)\s+(?:for|as|für|als|para|como|pour|comme|per|come|для|как)\s"
    r"(?P<slot>.+)"
)


class RuleChoice(Value):
    """The *value* for a *slot*; *is_exclusive* says that another value cannot hold beside it."""

    slot: Hashable
    value: str
    is_exclusive: bool


def find_choice(clause: str, subject: Callable[[str], frozenset[str]]) -> RuleChoice | None:
    """Return the choice that a demand makes, None for none.

    Args:
        clause: the demand.
        subject: returns the content words of a text.

    >>> find_choice("Indent with tabs", lambda text: frozenset(text.lower().split()) - {"with"})
    RuleChoice(slot=('indentation', frozenset()), value='0', is_exclusive=True)
    """
    lower, is_ban = clause.lower(), NEGATION.search(clause) is not None
    for name, (topic, values) in _SLOTS.items():
        found = [
            (match, str(number)) for number, value in enumerate(values) if (match := value.search(lower))
        ]
        if not found:
            continue
        (first, chosen), *others = sorted(found, key=lambda each: each[0].start())
        end = others[0][0].end() if others else first.end()
        is_clear = len(others) == 1 and _INSTEAD.search(lower[first.end() : end]) if others else not is_ban
        if not is_clear or NEGATION.search(lower[: first.start()]):
            return None
        rest = subject(topic.sub(" ", f"{lower[: first.start()]} {lower[end:]}"))
        return RuleChoice(
            (name, frozenset(word for word in rest if not word.isdecimal())), chosen, is_exclusive=True
        )
    if not is_ban and (match := _USE_FOR.search(lower)) is not None and (slot := subject(match["slot"])):
        return RuleChoice(("for", slot), match["value"], is_exclusive=False)
    return None
