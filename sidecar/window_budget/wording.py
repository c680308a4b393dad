"""Words that give a sentence away as a rule or a decision, in the languages that most prompts are written in.

English, German, Spanish, French, Portuguese, Italian, Russian, Chinese, Japanese and Korean. A sentence in
any other language is no rule and no decision by its words; it still stands in the digest, because prompts are
kept as they were typed.

Every repetition is bounded, because the patterns run over pasted text as well. They expect text in lower
case, and the words of one first letter are tried together: both make a search several times as fast.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from sidecar.window_budget.rule_words import (
    ASIAN_REPORTS,
    ASIAN_RULES,
    BARE_NEGATIONS,
    BARE_VERB,
    DUTCH_AND_NORDIC_RULES,
    ENGLISH_ORDERS,
    ENGLISH_RULES,
    GENERAL_RULES,
    GERMAN_RULES,
    NEGATED_ORDERS,
    OPENINGS,
    POLISH_RULES,
    REPORTS,
    ROMANCE_RULES,
    RUSSIAN_RULES,
    TURKISH_RULES,
)

_LEAD = re.compile(
    r"(?:\A|\n|[^\w\s'/.-]|[.-]\s|\b(?:and|but|so|please|pls|also|just|then|or|actually|again|plus|because"
    r"|hence"
    r"|thus|therefore|now|ok|okay|yes|you|kindly|ever|not|otherwise|instead|simply|y|pero|por favor|favor"
    r"|et|mais|e|ma|mas"
    r"|stp|svp)\s)\s{0,8}\Z"
)
"""What stands before an order in an English sentence: "I don't know" gives none, "so don't" does."""

_START = re.compile(r"(?:\A|\n|[.!?;] )\W{0,6}(?:(?:please|also|just|and|but|so|and please),? )?\Z")
_LEAD_CHARS = 24

_PERMISSIONS = (
    r"(?:you|we) (?:may|can|could|are allowed to|are free to|are welcome to)(?: now| again| also| all)?"
    r"(?! not\b|n't|'t|not\b| only\b| never\b)"
    r"|you (?:no longer|don't|do not|needn't)(?: need| have)?(?: to)?(?= .{1,60}any ?more\b)"
    r"|you no longer (?:need|have)"
    r" to|feel free to|no need to|go ahead and|i (?:now )?(?:allow|permit)"
    r"|it(?:'s| is) (?:now )?(?:ok|okay|fine|alright|all right) (?:now )?to"
    r"|(?:is|are) (?:now )?(?:allowed|ok|okay|fine|permitted)(?: now| again)?(?= *(?:$|[.!;,]))"
    r"|du darfst|darfst du|sie dürfen|dürfen sie|ihr dürft|du kannst|kannst du|sie können|ihr könnt"
    r"|(?:ist|sind) (?:jetzt |nun |ab jetzt |wieder )?(?:erlaubt|okay|ok|in ordnung)|ich erlaube"
    r"|(?:musst|müssen|müsst|brauchst|brauchen) .{1,60}(?:nicht|keine?\w?) mehr"
    r"|(?<!no )(?:puedes|podéis|pueden|puede usted)|(?<!no )(?:está|queda|están) (?:ya "
    r"|ahora )?permitid\w{1,2}"
    r"|ya no (?:hace falta|es necesario|tienes que|hay que)"
    r"|tu peux|vous pouvez|on peut|peux maintenant|est (?:maintenant |désormais )?(?:autorisée?|permise?)"
    r"|plus besoin de|n'est plus (?:nécessaire|obligatoire|interdite?)"
    r"|(?<!não )(?:você pode|vocês podem|já pode|agora pode|pode agora)|(?<!não )(?:está|é|estão) (?:agora "
    r"|já )?(?:permitid|liberad)\w{1,2}"
    r"|não precisa mais|já não (?:precisa|é necessário)"
    r"|(?<!non )(?:puoi|potete|può ora)|(?<!non )è (?:ora )?(?:permess|consentit)\w|non (?:serve|occorre"
    r"|è) più(?: necessario| vietato)?"
    r"|(?<!не )(?:можно|можешь|можете|разрешено|разрешается|разрешаю)|(?<!nie )(?:możesz|możecie|można"
    r"|wolno)|je mag|(?:du|ni) får(?! inte| aldrig)|больше не (?:нужно|надо|обязательно"
    r"|запрещено)"
)
_ASIAN_PERMISSIONS = (
    r"(?<![不只])可以|(?<!不)允许|(?<!不)准许|不用再|不必再|不再需要|无需再|不再禁止"
    r"|て(?:も(?:いい|よい|良い|構いません|かまいません|大丈夫)|よい|いい)|でも(?:いい|よい|構いません)"
    r"|許可し(?!ない|ません)|なくて(?:も)?(?:いい|よい)"
    r"|必要は(?:もう)?(?:ありません|ない)"
    r"|[아어해]도 ?(?:됩니다|돼|된다|좋습니다|괜찮)|허용(?:합니다|됩니다|한다|해)|필요(?:는|가)? ?없"
)
"""Words that allow, so that an earlier rule may hold no more."""

_RULE_NOUN = (
    r"rule|ban|restriction|constraint|requirement|convention|regel|vorgabe|verbot|einschränkung|regla"
    r"|prohibición"
    r"|restricción|règle|interdiction|contrainte|regra|proibição|restrição|regola|divieto|правил[оа]"
    r"|запрет|zasad[aęyz]\w{0,2}|reguł[aęy]|zakaz|regel"
)
_WITHDRAWALS = (
    r"(?:forget|ignore|scrap|disregard|never mind) (?:what|everything|all|that) (?:i|we) (?:said|told|wrote)"
    r"|(?:vergiss|ignorier\w{0,2}),? was ich|(?:olvida|ignora) lo que|oublie ce que|esqueç?[ae] o que"
    r"|dimentica (?:quello|ciò) che"
    r"|забудь,? что|zapomnij,? co|"
    rf"(?:zapomnij|anuluj|forget|drop|ignore|scrap|lift|cancel|revoke|withdraw|disregard|remove|vergiss"
    rf"|streiche|ignoriere"
    rf"|olvida|ignora"
    rf"|quita|oublie|ignore|supprime|esqueça|remova|dimentica|togli|забудь|отмени"
    rf"|сними)\b.{{0,40}}\b(?:{_RULE_NOUN})s?"
    rf"|(?:{_RULE_NOUN})s?\b.{{0,80}}(?:no longer|not .{{0,20}}any ?more|is (?:lifted|off|gone|void"
    rf"|cancelled|obsolete)"
    r"|(?:doesn't|does not) (?:apply|hold)|nicht mehr|aufgehoben|hinfällig|entfällt|ya no"
    r"|no (?:se )?aplica|(?:już )?nie obowiązuje"
    r"|ne s'applique plus"
    r"|n'est plus|levée?|não (?:vale|se aplica)|já não|non vale|non si applica|больше не|отмен\w{2,6}"
    r"|снят\w?)"
    r"|no longer (?:applies|apply|holds|hold|needed|necessary|required|forbidden)|gilt nicht mehr"
    r"|gelten nicht mehr"
    r"|ya no (?:se aplica|rige|vale)|ne s'applique plus|já não vale|non vale più|больше не действует"
    r"|już nie obowiązuje|geldt niet meer"
)
_ASIAN_WITHDRAWALS = (
    r"(?:取消|忘掉|忽略|解除|废除|撤销).{0,20}(?:规则|限制|禁令|规定|要求)|(?:规则|限制|禁令"
    r"|规定).{0,20}(?:取消|作废|不再|解除)|不再适用"
    r"|(?:ルール|制限|規則|禁止).{0,20}(?:忘れ|撤回|取り消|解除|無効|なし)|もう適用"
    r"|(?:규칙|제한|금지).{0,20}(?:잊|적용되지|취소|해제|무시|폐지|철회)|더 ?이상 (?:적용|유효)"
)

_DECISIONS = (
    r"decid\w+|decision|chos(?:e|en)|choos(?:e|ing)|go(?:ing)? with|went with|opt(?:ed|ing)? for"
    r"|settled? on|agreed|instead of|rather than|trade-?off|root cause|turns out|picked|conclusion"
    r"|the (?:cause|culprit|fix|problem|bug|issue) (?:is|was)"
    r"|(?:we|i)(?:'ll| will| should) (?:use|keep|store|switch|stick)|let'?s use|switch(?:ed|ing)? to"
    r"|revert(?:ed|ing)? (?:to|the)|go(?:ing)? for|stick(?:ing)? (?:with|to)|in favou?r of|the plan is"
    r"|our plan|prefer"
    r"|replac(?:ed?|ing) .{1,80} with|we(?:'re| are) (?:using|keeping|going)|i(?:'m| am) (?:using|keeping"
    r"|replacing|switching)"
    r"|let'?s (?:go|do|keep|switch|drop)|forget|option \w|my (?:choice|pick)|preferred"
    r"|entsch(?:eid|ied)\w{0,8}|statt(?:dessen)?|gewählt|wir (?:nehmen|verwenden|nutzen|bleiben bei|behalten)"
    r"|anstelle|anstatt|lieber|ich (?:nehme|behalte|verwende|nutze|bleibe)|bleibt .{1,40}fällt weg"
    r"|vergiss|variante \w|einigt\w{0,3}"
    r"|verw(?:erfen|arf|arfen|orfen)|meine wahl|nimm"
    r"|ursache (?:ist|war)|stellte sich heraus"
    r"|decisi[óo]n|decisão|elegi\w{1,5}|elijo|optamos|en (?:lugar|vez) de|la causa|usaremos|vamos a usar"
    r"|nos quedamos|me quedo|quédate|opt(?:o|é|ado|amos|ando)|prefiero|mejor usa|descart\w{1,5}"
    r"|acord(?:amos|ado)|opción \w|elección"
    r"|décid\w{1,5}|décision|choisi\w{0,3}|opté|au lieu de|plutôt que|on (?:va )?utiliser\w{0,3}"
    r"|on (?:garde|part|prend|choisit|abandonne)|je (?:prends|garde|choisis|préfère)|plutôt|oublie"
    r"|option \w|mon choix|abandonn\w{1,3}"
    r"|d'accord sur|prends"
    r"|escolh\w{1,5}|em vez de|ao invés de|a causa|vamos usar|decis[oai]\w{0,4}|scelt[oai]|invece di"
    r"|ficamos|fico com|opt(?:o|ei|amos|ando)|prefiro|no lugar de|esquece|combin(?:amos|ado)|opção \w"
    r"|al posto di|teniamo|usiamo|preferisco|scart\w{1,5}|concordat\w|opzione \w|optato|lascia perdere"
    r"|реш(?:ил\w{0,2}|ен\w{0,4})|выбра\w{1,4}|вместо|причина|будем использовать|остановились на"
    r"|остаёмся|останемся|беру|берём|бери|выбор|предпочт\w{1,5}|лучше|отказ(?:ались|ываемся|аться)"
    r"|договорились|убираем|вариант \w|а не"
    r"|zamiast|wybra\w{1,5}|wybór|decyzj\w|zdecydowa\w{1,5}|postanowi\w{1,5}|zostaj(?:emy|ę)|biorę"
    r"|bierzemy|odrzuc\w{1,5}|opcj\w \w|uzgodni\w{1,5}"
    r"|przyczyn\w|in plaats van|gekozen|kies|besloten|besluit|liever|istället för|valde|i stedet for"
    r"|yerine|karar"
)
_ASIAN_DECISIONS = (
    r"决定|决策|选择|选用|采用|改用|改为|而不是|根本原因|原因是|结论|还是用|代替|替代|最终|就用|放弃|不用.{0,30}了|那就|方案|商定|我选|选[^项择]"
    r"|決定|決め[たま]|採用|選択|選[びん]|代わりに|ではなく|原因は|方針|することにし|見送|にします|でいこう|でいく|じゃなく|を使います|を用い|合意|案\d|にして、"
    r"|결정|선택|채택|대신|원인은|하기로|기로 했|기로 하|말고|아니라|사용하겠|합의"
    r"|로 (?:하자|가고|합니다|하고)|버(?:렸|리)|\d안"
)


_ALTERNATIVE = re.compile(r"(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\\.|\[[^\]]*\]|[^|(\[\\])+")
"""One alternative of a pattern, with its groups and classes."""

_CHOICE = re.compile(r"\(\?:((?:[^()]|\([^()]*\))*)\)(\??)(?![{*+])")
"""A choice at the beginning of an alternative, and whether it may be left out."""

_NOT_BEHIND = re.compile(r"\(\?<!([^()]*)\)")
"""What must not stand before an alternative; it is looked for once the first letter is there."""


_HEAD = re.compile(_ALTERNATIVE.pattern.replace(r"[^|(\[\\]", r"[^|(\[\\.]"))
"""An alternative up to its first gap between words."""

_NO_LETTER = (
    r"[^0-9A-Za-z_\u00df-\u00f6\u00f8-\u024f\u03b1-\u03c9\u0430-\u045f\u05d0-\u05ea\u0620-\u064a"
    r"\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
)
"""What may stand before a word: all but the letters of most texts, which a search passes over faster than the
many more of ``\\w``."""

_LONG_REST = 200
"""A search for beginnings leaves out the rest of an alternative behind its first gap when it is longer."""


def _by_letter(alternatives: Iterable[str]) -> str:
    """Return a pattern that finds any of *alternatives*, tried by their first letters.

    The words of a choice with one first letter stay together, so that the rest stands there once for them.
    """
    by_letter: dict[str, list[str]] = defaultdict(list)
    waiting = [("", words) for words in [*alternatives][::-1]]
    while waiting:
        banned, words = waiting.pop()
        if (ban := _NOT_BEHIND.match(words)) is not None:
            waiting.append((ban[1], words[ban.end() :]))
        elif (choice := _CHOICE.match(words)) is not None:
            rest = words[choice.end() :]
            like: dict[str, list[str]] = defaultdict(list)
            for each in _ALTERNATIVE.findall(choice[1])[::-1]:
                like[each[0] if each[0].isalpha() else each].append(each)
            for letter, (first, *more) in like.items():
                ends = "|".join(each[1:] for each in (first, *more))
                waiting.append((banned, f"{letter}(?:{ends}){rest}" if more else first + rest))
            waiting += [(banned, rest)] * bool(choice[2])
        else:
            letter = words[0] if words[0].isalpha() else ""
            rest = words[len(letter) :]
            by_letter[letter].append(f"(?<!{banned}{letter}){rest}" if banned else rest)
    return "|".join(f"{letter}(?:{'|'.join(rest)})" for letter, rest in by_letter.items())


def _search_words(*alternatives: str) -> str:
    """Return a pattern that finds any of *alternatives* where a word begins."""
    return rf"(?<!\w)(?:{_by_letter(_ALTERNATIVE.findall('|'.join(alternatives)))})"


_LONG_PROMPT = 12_000
_RULES = (
    *(ENGLISH_RULES, GERMAN_RULES, ROMANCE_RULES, RUSSIAN_RULES),
    *(GENERAL_RULES, POLISH_RULES, DUTCH_AND_NORDIC_RULES, TURKISH_RULES),
)
_ASIAN_PERMISSION, _ASIAN_WITHDRAWAL = re.compile(_ASIAN_PERMISSIONS), re.compile(_ASIAN_WITHDRAWALS)
_REFUSAL = re.compile(
    r"\W{1,3}(?:\w{1,20} ){0,6}?(?:nicht(?! mehr)|nie|niemals|keine?\w?|nur|pas|plus|jamais|aucun\w*|solo"
    r"|only)\b"
)
"""What turns a permission into its opposite where it follows: "du darfst ... nicht"."""

_DENIED = re.compile(r"\b(?:not?|nicht|não|non|nie|не)\s{1,2}\Z")
"""The same before it: "no está permitido"."""

_ASIAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
"""A character that all of the Asian words above have: a dash or an accent is none."""

_ASIAN_RULE, _ASIAN_DECISION = re.compile(ASIAN_RULES), re.compile(_ASIAN_DECISIONS)
_ASIAN_REPORT, _BARE_VERB = re.compile(ASIAN_REPORTS), re.compile(BARE_VERB)


class Words(NamedTuple):
    """The patterns of the words of all languages but the Asian ones.

    Attributes:
        rule: sets a rule wherever it stands.
        order: sets one behind certain words.
        opening: sets one at the beginning of a sentence.
        bare: sets one behind a verb that begins a clause.
        report: the sentence is a report and sets no rule.
        permission: allows something.
        withdrawal: takes a rule back.
        beginning: where any of these may begin: one search that finds few places, instead of five searches.
        decision: decides something, or names a cause.

    The last two begin with the character before the word, which a search finds without a try at each letter;
    the text needs a blank at its beginning.
    """

    rule: re.Pattern[str]
    order: re.Pattern[str]
    opening: re.Pattern[str]
    bare: re.Pattern[str]
    report: re.Pattern[str]
    permission: re.Pattern[str]
    withdrawal: re.Pattern[str]
    beginning: re.Pattern[str]
    decision: re.Pattern[str]


@cache
def load_words() -> Words:
    """Return the patterns."""
    orders = ENGLISH_ORDERS, NEGATED_ORDERS
    every = "|".join((*_RULES, *orders, OPENINGS, BARE_NEGATIONS, _PERMISSIONS, _WITHDRAWALS))
    heads = ((words, _HEAD.match(words)) for words in _ALTERNATIVE.findall(every))
    beginning = _by_letter(
        head[0] if head is not None and len(words) - head.end() > _LONG_REST else words
        for words, head in heads
    )
    decision = _by_letter(_ALTERNATIVE.findall(_DECISIONS))
    return Words(
        rule=re.compile(_search_words(*_RULES) + r"\b"),
        order=re.compile(_search_words(*orders)),
        opening=re.compile(_search_words(OPENINGS)),
        bare=re.compile(_search_words(BARE_NEGATIONS)),
        report=re.compile(REPORTS),
        permission=re.compile(_search_words(_PERMISSIONS) + r"\b"),
        withdrawal=re.compile(_search_words(_WITHDRAWALS) + r"\b"),
        beginning=re.compile(rf"{_NO_LETTER}(?={beginning})(?<!\w)"),
        decision=re.compile(rf"{_NO_LETTER}(?=(?:{decision})\b)(?<!\w)"),
    )


@lru_cache(maxsize=2)
def find_rule_words(text: str) -> tuple[tuple[int, int], ...]:
    """Return the start and end of all words in *text* that may set a rule or allow something, in order.

    Each sentence that does either has some; whether it does is decided sentence by sentence. The newest texts
    are remembered, as the rules of a session and the fact index both look at each prompt.
    """
    lower = text.lower().replace("’", "'")
    if len(lower) != len(text):
        return ((0, len(text)),)
    found_at = list[tuple[int, int]]()
    words = load_words()
    patterns = (words.rule, words.order, words.opening, words.bare, words.permission, words.withdrawal)
    ends = [0] * len(patterns)
    for beginning in words.beginning.finditer(f" {lower}"):
        start = beginning.start()  # of the blank, where the word has its place in the text without that
        for number, pattern in enumerate(patterns):
            if start >= ends[number] and (found := pattern.match(lower, start)) is not None:
                ends[number] = found.end()
                found_at.append(found.span())
    if not lower.isascii() and _ASIAN.search(lower):
        for pattern in (_ASIAN_RULE, _ASIAN_PERMISSION, _ASIAN_WITHDRAWAL):
            found_at += (found.span() for found in pattern.finditer(lower))
    return tuple(sorted(found_at))


def may_set_rules(prompt: str) -> bool:
    """Whether *prompt* may set a rule or allow something; a long one, or one with code, may."""
    return len(prompt) > _LONG_PROMPT or "```" in prompt or bool(find_rule_words(prompt))


def sets_rule(text: str) -> bool:
    """Whether *text*, which a user typed, sets a rule.

    >>> sets_rule("Fasse vendor/ nicht an."), sets_rule("Fix the parser.")
    (True, False)
    """
    lower = text.lower().replace("’", "'")
    words = load_words()
    demands = _finds(words.rule, _ASIAN_RULE, lower) or any(
        lead.search(lower[max(0, each.start() - _LEAD_CHARS) : each.start()])
        for pattern, lead in ((words.order, _LEAD), (words.opening, _START), (words.bare, _BARE_VERB))
        for each in pattern.finditer(lower)
    )
    return demands and ("\n" in lower or not _finds(words.report, _ASIAN_REPORT, lower))


def find_permission(sentence: str) -> tuple[int, int, bool] | None:
    """Return where *sentence* allows something: the start and end of the words that do, None for nowhere.

    The third value is whether it takes a rule back by that name ("forget the rule about tabs").

    >>> find_permission("You may push to main now."), find_permission("You may not push.")
    ((0, 7, False), None)
    """
    lower = sentence.lower().replace("’", "'")
    has_characters = not lower.isascii() and _ASIAN.search(lower) is not None
    words = load_words()
    for pattern, characters, is_withdrawal in (
        (words.withdrawal, _ASIAN_WITHDRAWAL, True),
        (words.permission, _ASIAN_PERMISSION, False),
    ):
        found = pattern.search(lower) or (characters.search(lower) if has_characters else None)
        if found is None:
            continue
        is_denied = _REFUSAL.search(lower, found.end()) or _DENIED.search(lower[: found.start()][-8:])
        if is_withdrawal or not is_denied:
            return found.start(), found.end(), is_withdrawal
    return None


def states_decision(text: str) -> bool:
    """Whether *text* decides something or names a cause.

    >>> states_decision("The root cause is a stale cursor."), states_decision("Let me look.")
    (True, False)
    """
    return _finds(load_words().decision, _ASIAN_DECISION, f" {text.lower()}")


def _finds(words: re.Pattern[str], characters: re.Pattern[str], text: str) -> bool:
    return bool(
        words.search(text) or (not text.isascii() and _ASIAN.search(text) and characters.search(text))
    )
