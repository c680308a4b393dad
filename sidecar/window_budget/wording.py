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
from functools import cache, lru_cache
from typing import NamedTuple

_LEAD = re.compile(
    r"(?:\A|\n|[^\w\s'/.-]|[.-]\s|\b(?:and|but|so|please|pls|also|just|then|or|actually|again|plus|because"
    r"|hence"
    r"|thus|therefore|now|ok|okay|yes|you|kindly|ever|not|otherwise|instead|simply)\s)\s{0,8}\Z"
)
"""What stands before an order in an English sentence: "I don't know" gives none, "so don't" does."""

_START = re.compile(r"(?:\A|\n|[.!?;] )\W{0,6}(?:(?:please|also|just|and|but|so|and please),? )?\Z")
_REPORT = re.compile(
    r"\b(?:doesn't|does not|isn't|is not|didn't|did not|wasn't|was not) (?:adher|follow|respect|obey|match)"
)
"""A sentence with these words reports how things are."""

_LEAD_CHARS = 20

_ENGLISH_ORDERS = (
    r"always (?!been|had|has|have been|was|is|get|got|seen|works?|happens?)"
    r"|never (?!mind|work|happen|seen|saw|got|had|been|heard|knew|thought|tried|used to)"
    r"|(?:do not|don't|dont) (?!need|have to|think|know|see|worry|mind|understand|want|remember|believe"
    r"|forget"
    r"|recall|hesitate|get (?:me|it|this|why|how)|we |i |you )\w"
    r"|avoid |refrain from|prefer |only (?:use|touch|edit|change|write|run|modify|add|import|log|commit|push"
    r"|call|read|work|test|mock|in|on|with) |use only|from now on|going forward|keep in mind|hands off"
    r"|remember (?:to|that) |stick (?:to|with) |leave .{1,40} (?:alone|as it is|untouched)|nothing but "
    r"|(?:house |ground |hard )?(?:rule|constraint|convention|guideline|requirement)s?(?: \d+)?(?: is|: )"
)
_OPENINGS = (
    r"make sure (?!(?:this|it|they|these|those)\b)|ensure (?!(?:this|it|they|these|those)\b)"
    r"|(?:no|keinen?|keine|sin|sans|sem|niente|nessun\w?|без) (?!problem|worries|idea|need|thanks|luck"
    r"|doubt|remove"
    r"|add |it |this |that |i |we |you |just|make|do |let|please|not |one |longer"
    r"|.{0,60}\b(?:modified|removed|added|applied|needed|required|found|changed|available)\b)\w"
)
"""Words that set a rule only where a sentence begins with them."""

_ENGLISH_RULES = (
    r"(?<!there )must(?:n't| not)?(?! have (?:been|left|got|had|\w+ed|forgotten)\b| be (?:\{\}|'|an? "
    r"|some\w* "
    r"|wrong|mistaken|the (?:case|reason|cause|problem)))"
    r"|should (?:not|never|always|only)(?! happen| have| be the case)|shouldn't|shall"
    r"|you may not|no one may|it may not|they may not|we may not|may (?:only|never)"
    r"|(?<!not )has to (?:stay|remain|be (?!a |some))|have to (?:stay|remain|be (?!a |some))|is to (?:stay"
    r"|remain)"
    r"|are to (?:stay|remain)|needs? to (?:stay|remain)|stays? (?:under|below|above|over|within|in)"
    r"|we (?:always|never) |the team (?:always|never) |everyone (?:always|never) "
    r"|we (?:don't|do not) (?:use|allow|want|commit|accept|merge|ship|do)"
    r"|i(?:'d| would)?(?: really| rather| much)? prefer|i (?:don't|do not) want (?:you|any|to be|it)"
    r"|want to avoid|i want you to (?:always|never|only)|forbidden|off[- ]limits|not allowed"
    r"|under no circumstances"
    r"|without (?:touching|changing|adding|breaking|asking)|unless i |use .{1,60}, (?:not|no [a-z]+)"
    r"|all .{1,60} (?:stay|remain|are (?:always|never))|every .{1,60} (?:(?:stay|remain|require)s"
    r"|is (?:always|never))|each .{1,60} (?:stay|remain"
    r"|require)s"
    + "".join(
        rf"|{verb} .{{0,80}}(?:at (?:most|least)|no (?:more|longer|fewer|less|larger|bigger) than|(?:under"
        rf"|below"
        r"|within) \d+)"
        for verb in (
            "keep",
            "use",
            "write",
            "limit",
            "allow",
            "take",
            "make",
            "give",
            "have",
            "with",
            "within",
        )
    )
)
_GERMAN_RULES = (
    r"immer|stets|nie|niemals|nur noch|ab (?:jetzt|sofort)|auf keinen fall|unter keinen umständen|verboten"
    r"|nicht erlaubt|darf(?:st|en)? .{0,60}(?:nicht|nie|keine?\w?|nur)|muss|müssen"
    r"|soll(?:st|en|te)? (?:nicht|nie|immer|nur|kein\w{0,2})|vermeide\w{0,2}|achte darauf|ausschließlich"
    r"|höchstens|mindestens"
    r"|(?:fass|rühr|änder|lösch|verwend|benutz|nutz|schreib|füg)e?n? .{1,60}(?:nicht|keine?\w?|niemals|nie)"
    r"|(?:bitte )?(?:nicht|keine?n?) .{1,60}(?:anfassen|ändern|löschen|verwenden|benutzen|hinzufügen)"
)
_ROMANCE_RULES = (
    r"nunca|jamás|siempre|a partir de ahora|prohibido|evita\w{0,2}|asegúrate|no (?:debes?|deben|puede[sn]?"
    r"|se (?:debe|puede)|uses|toques|cambies|modifiques|borres|añadas|agregues|escribas|hagas|subas|ejecutes)"
    r"|deben? (?:ser|estar|usar|quedar|seguir)|como (?:máximo|mínimo)|sin (?:tocar|cambiar|modificar|añadir)"
    r"|sol(?:o|amente) (?:usa|utiliza)|usa (?:solo|solamente|únicamente)"
    r"|jamais|toujours|désormais|à partir de maintenant|interdit\w{0,2}|évite[rz]?|assure-toi|assurez-vous"
    r"|il (?:ne )?faut|(?:doit|doivent|dois|devez) (?:être|rester|toujours|utiliser|pas)|au (?:plus|moins) \d"
    r"|ne .{1,60}\b(?:pas|plus|aucun\w{0,2})|uniquement|sans (?:toucher|modifier|changer|ajouter)"
    r"|sempre|não (?:deve|pode|use|toque|altere|mude|modifique|apague|adicione|escreva|faça|mexa)|proibido"
    r"|de agora em diante|a partir de agora|certifique-se|evite|somente|no (?:máximo|mínimo)|nunca mais"
    r"|mai|d'ora in poi|vietato|assicurati|non (?:devi|deve|usare|toccare|modificare|cambiare|aggiungere)"
)
_RUSSIAN_RULES = (
    r"никогда|всегда|нельзя|обязательно|запрещ\w{1,6}|отныне|с этого момента|избегай\w{0,2}|убедись"
    r"|не (?:более|менее|надо|нужно|трогай\w{0,2}|меняй\w{0,2}|используй\w{0,2}|добавляй\w{0,2}"
    r"|удаляй\w{0,2}|изменяй\w{0,2}|пиши\w{0,2}|должн\w{1,3})|должн[аоы]? (?:быть|остаться|оставаться)"
    r"|используй\w{0,2} только|только .{1,40}(?:использ\w{1,8}|разреш\w{1,6})"
)
_ASIAN_RULES = (
    r"不要|不得|不可|不许|不准|不能|禁止|务必|必须|一律|始终|总是|永远|绝不|切勿|请勿|只能|只用|仅限|仅使用"
    r"|从现在(?:起|开始)|以后都|避免|确保|最多|至少|不超过|别[改动用删碰写加]"
    r"|しないで|するな|てはいけ|てはなら|ないでください|ないこと|べきではな|なければな|禁止|必ず|常に"
    r"|絶対に|決して"
    r"|のみ使|だけを?使|今後は|これからは|避けて|触らない|変更しない"
    r"|하지 ?마|지 ?마세요|지 ?말|금지|반드시|항상|절대|결코|앞으로는?|지금부터|만 사용|오직"
    r"|해야 ?(?:한다|합니다|해)"
    r"|안 ?됩니다|안 ?돼"
)

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
    r"|(?<!no )(?:puedes|podéis|pueden|puede usted)|(?:está|queda|están) (?:ya |ahora )?permitid\w{1,2}"
    r"|ya no (?:hace falta|es necesario|tienes que|hay que)"
    r"|tu peux|vous pouvez|on peut|peux maintenant|est (?:maintenant |désormais )?(?:autorisée?|permise?)"
    r"|plus besoin de|n'est plus (?:nécessaire|obligatoire|interdite?)"
    r"|(?<!não )(?:você pode|vocês podem|já pode|agora pode|pode agora)|(?:está|é|estão) (?:agora "
    r"|já )?(?:permitid|liberad)\w{1,2}"
    r"|não precisa mais|já não (?:precisa|é necessário)"
    r"|(?<!non )(?:puoi|potete|può ora)|è (?:ora )?(?:permess|consentit)\w|non (?:serve|occorre"
    r"|è) più(?: necessario| vietato)?"
    r"|(?<!не )(?:можно|можешь|можете|разрешено|разрешается|разрешаю)|больше не (?:нужно|надо|обязательно"
    r"|запрещено)"
)
_ASIAN_PERMISSIONS = (
    r"(?<![不只])可以|允许|准许|不用再|不必再|不再需要|无需再|不再禁止"
    r"|て(?:も(?:いい|よい|良い|構いません|かまいません|大丈夫)|よい|いい)|でも(?:いい|よい|構いません)"
    r"|許可し|なくて(?:も)?(?:いい|よい)"
    r"|必要は(?:もう)?(?:ありません|ない)"
    r"|[아어해]도 ?(?:됩니다|돼|된다|좋습니다|괜찮)|허용(?:합니다|됩니다|한다|해)|필요(?:는|가)? ?없"
)
"""Words that allow, so that an earlier rule may hold no more."""

_RULE_NOUN = (
    r"rule|ban|restriction|constraint|requirement|convention|regel|vorgabe|verbot|einschränkung|regla"
    r"|prohibición"
    r"|restricción|règle|interdiction|contrainte|regra|proibição|restrição|regola|divieto|правил[оа]|запрет"
)
_WITHDRAWALS = (
    rf"(?:forget|drop|ignore|scrap|lift|cancel|revoke|withdraw|disregard|remove|vergiss|streiche|ignoriere"
    rf"|olvida|ignora"
    rf"|quita|oublie|ignore|supprime|esqueça|remova|dimentica|togli|забудь|отмени"
    rf"|сними)\b.{{0,40}}\b(?:{_RULE_NOUN})s?"
    rf"|(?:{_RULE_NOUN})s?\b.{{0,80}}(?:no longer|not .{{0,20}}any ?more|is (?:lifted|off|gone|void"
    rf"|cancelled|obsolete)"
    r"|(?:doesn't|does not) (?:apply|hold)|nicht mehr|aufgehoben|hinfällig|entfällt|ya no|no se aplica"
    r"|ne s'applique plus"
    r"|n'est plus|levée?|não (?:vale|se aplica)|já não|non vale|non si applica|больше не|отмен\w{2,6}"
    r"|снят\w?)"
    r"|no longer (?:applies|apply|holds|hold|needed|necessary|required|forbidden)|gilt nicht mehr"
    r"|gelten nicht mehr"
    r"|ya no (?:se aplica|rige|vale)|ne s'applique plus|já não vale|non vale più|больше не действует"
)
_ASIAN_WITHDRAWALS = (
    r"(?:取消|忘掉|忽略|解除|废除|撤销).{0,20}(?:规则|限制|禁令|规定|要求)|(?:规则|限制|禁令"
    r"|规定).{0,20}(?:取消|作废|不再|解除)|不再适用"
    r"|(?:ルール|制限|規則|禁止).{0,20}(?:忘れ|撤回|取り消|解除|無効|なし)|もう適用"
    r"|(?:규칙|제한|금지).{0,20}(?:잊|취소|해제|무시|폐지|철회)|더 ?이상 (?:적용|유효)"
)

_DECISIONS = (
    r"decid\w+|decision|chos(?:e|en)|choos(?:e|ing)|go(?:ing)? with|went with|opt(?:ed|ing)? for"
    r"|settled? on|agreed|instead of|rather than|trade-?off|root cause|turns out|picked|conclusion"
    r"|the (?:cause|culprit|fix|problem|bug|issue) (?:is|was)"
    r"|(?:we|i)(?:'ll| will| should) (?:use|keep|store|switch|stick)|let'?s use|switch(?:ed|ing)? to"
    r"|revert(?:ed|ing)? (?:to|the)"
    r"|entsch(?:eid|ied)\w{0,8}|statt(?:dessen)?|gewählt|wir (?:nehmen|verwenden|nutzen|bleiben bei)"
    r"|ursache (?:ist|war)|stellte sich heraus"
    r"|decisi[óo]n|decisão|elegi\w{1,5}|elijo|optamos|en (?:lugar|vez) de|la causa|usaremos|vamos a usar"
    r"|décid\w{1,5}|décision|choisi\w{0,3}|opté|au lieu de|plutôt que|on (?:va )?utiliser\w{0,3}"
    r"|escolh\w{1,5}|em vez de|ao invés de|a causa|vamos usar|decis[oai]\w{0,4}|scelt[oai]|invece di"
    r"|реш(?:ил\w{0,2}|ен\w{0,4})|выбра\w{1,4}|вместо|причина|будем использовать|остановились на"
)
_ASIAN_DECISIONS = (
    r"决定|决策|选择|选用|采用|改用|改为|而不是|根本原因|原因是|结论"
    r"|決定|決め[たま]|採用|選択|選[びん]|代わりに|ではなく|原因は|方針|することにし"
    r"|결정|선택|채택|대신|원인은|하기로"
)


_ALTERNATIVE = re.compile(r"(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\\.|\[[^\]]*\]|[^|(\[\\])+")
"""One alternative of a pattern, with its groups and classes."""

_CHOICE = re.compile(r"\(\?:((?:[^()]|\([^()]*\))*)\)(\??)(?![{*+])")
"""A choice at the beginning of an alternative, and whether it may be left out."""

_NOT_BEHIND = re.compile(r"\(\?<!([^()]*)\)")
"""What must not stand before an alternative; it is looked for once the first letter is there."""


def _by_letter(*alternatives: str) -> str:
    """Return a pattern that finds any of *alternatives*, tried by their first letters."""
    by_letter: dict[str, list[str]] = defaultdict(list)
    waiting = [("", words) for words in _ALTERNATIVE.findall("|".join(alternatives))[::-1]]
    while waiting:
        banned, words = waiting.pop()
        if (ban := _NOT_BEHIND.match(words)) is not None:
            waiting.append((ban[1], words[ban.end() :]))
        elif (choice := _CHOICE.match(words)) is not None:
            rest = words[choice.end() :]
            waiting += [(banned, each + rest) for each in _ALTERNATIVE.findall(choice[1])]
            waiting += [(banned, rest)] * bool(choice[2])
        else:
            letter = words[0] if words[0].isalpha() else ""
            rest = words[len(letter) :]
            by_letter[letter].append(f"(?<!{banned}{letter}){rest}" if banned else rest)
    return "|".join(f"{letter}(?:{'|'.join(rest)})" for letter, rest in by_letter.items())


def _search_words(*alternatives: str) -> str:
    """Return a pattern that finds any of *alternatives* where a word begins."""
    return rf"(?<!\w)(?:{_by_letter(*alternatives)})"


_LONG_PROMPT = 12_000
_RULES = (_ENGLISH_RULES, _GERMAN_RULES, _ROMANCE_RULES, _RUSSIAN_RULES)
_ASIAN_PERMISSION, _ASIAN_WITHDRAWAL = re.compile(_ASIAN_PERMISSIONS), re.compile(_ASIAN_WITHDRAWALS)
_REFUSAL = re.compile(
    r"\W{1,3}(?:\w{1,20} ){0,6}?(?:nicht(?! mehr)|nie|niemals|keine?\w?|nur|pas|plus|jamais|aucun\w*|solo"
    r"|only)\b"
)
"""What turns a permission into its opposite where it follows: "du darfst ... nicht"."""

_ASIAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
"""A character that all of the Asian words above have: a dash or an accent is none."""

_ASIAN_RULE, _ASIAN_DECISION = re.compile(_ASIAN_RULES), re.compile(_ASIAN_DECISIONS)


class Words(NamedTuple):
    """The patterns of the words of all languages but the Asian ones.

    Attributes:
        rule: sets a rule wherever it stands.
        order: sets one behind certain words.
        opening: sets one at the beginning of a sentence.
        permission: allows something.
        withdrawal: takes a rule back.
        beginning: where any of these may begin: one search that finds few places, instead of five.
        decision: decides something, or names a cause.
    """

    rule: re.Pattern[str]
    order: re.Pattern[str]
    opening: re.Pattern[str]
    permission: re.Pattern[str]
    withdrawal: re.Pattern[str]
    beginning: re.Pattern[str]
    decision: re.Pattern[str]


@cache
def load_words() -> Words:
    """Return the patterns. The first call compiles them, which takes longer than to load this package."""
    beginning = _by_letter(*_RULES, _ENGLISH_ORDERS, _OPENINGS, _PERMISSIONS, _WITHDRAWALS)
    return Words(
        rule=re.compile(_search_words(*_RULES) + r"\b"),
        order=re.compile(_search_words(_ENGLISH_ORDERS)),
        opening=re.compile(_search_words(_OPENINGS)),
        permission=re.compile(_search_words(_PERMISSIONS) + r"\b"),
        withdrawal=re.compile(_search_words(_WITHDRAWALS) + r"\b"),
        beginning=re.compile(rf"(?<!\w)(?={beginning})"),
        decision=re.compile(_search_words(_DECISIONS) + r"\b"),
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
    patterns = (words.rule, words.order, words.opening, words.permission, words.withdrawal)
    ends = [0] * len(patterns)
    for beginning in words.beginning.finditer(lower):
        start = beginning.start()
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
    if _finds(words.rule, _ASIAN_RULE, lower):
        return "\n" in lower or not _REPORT.search(lower)
    for pattern, lead in ((words.order, _LEAD), (words.opening, _START)):
        for each in pattern.finditer(lower):
            if lead.search(lower[max(0, each.start() - _LEAD_CHARS) : each.start()]):
                return True
    return False


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
        if found is not None and not (is_withdrawal is False and _REFUSAL.search(lower, found.end())):
            return found.start(), found.end(), is_withdrawal
    return None


def states_decision(text: str) -> bool:
    """Whether *text* decides something or names a cause.

    >>> states_decision("The root cause is a stale cursor."), states_decision("Let me look.")
    (True, False)
    """
    return _finds(load_words().decision, _ASIAN_DECISION, text.lower())


def _finds(words: re.Pattern[str], characters: re.Pattern[str], text: str) -> bool:
    return bool(
        words.search(text) or (not text.isascii() and _ASIAN.search(text) and characters.search(text))
    )
