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

_ENGLISH_RULES = (
    r"always|never|must(?:n't)?|do not|d(?<!i d)(?<!we d)(?<!they d)on'?t|should not|shouldn't|shall"
    r"|may not|cannot be|only use|use only|from now on|make sure|ensure|avoid|prefer|keep in mind"
    r"|remember (?:to|that)|rule|constraint|convention|require[ds]?|forbidden|not allowed|no more than"
    r"|at (?:most|least)|without (?:touching|changing|adding|breaking|asking)"
    r"|leave .{1,40} (?:alone|as it is|untouched)|unless i|off[- ]limits|hands off|refrain from|under no"
    r"|stick (?:to|with)|nothing but|is to (?:stay|remain)|(?:has|have) to (?:stay|remain|be)|stays? under"
    r"|use .{1,60}, not|(?:all|every|each) .{1,60} (?:stay|remain)s?"
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
    r"|しないで|するな|てはいけ|てはなら|ないでください|ないこと|べきではな|なければな|禁止|必ず|常に|絶対に|決して"
    r"|のみ使|だけを?使|今後は|これからは|避けて|触らない|変更しない"
    r"|하지 ?마|지 ?마세요|지 ?말|금지|반드시|항상|절대|결코|앞으로는?|지금부터|만 사용|오직"
    r"|해야 ?(?:한다|합니다|해)"
    r"|안 ?됩니다|안 ?돼"
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


_ALTERNATIVE = re.compile(r"(?:\((?:[^()]|\([^()]*\))*\)|\\.|\[[^\]]*\]|[^|(\[\\])+")
"""One alternative of a pattern, with its groups and classes."""


def _search_words(*alternatives: str) -> str:
    """Return a pattern that finds any of *alternatives* as whole words, tried by their first letters."""
    by_letter: dict[str, list[str]] = defaultdict(list)
    for words in _ALTERNATIVE.findall("|".join(alternatives)):
        by_letter[words[0] if words[0].isalpha() else ""].append(words)
    tried = (
        f"{letter}(?:{'|'.join(each[len(letter) :] for each in by_letter[letter])})" for letter in by_letter
    )
    return rf"\b(?:{'|'.join(tried)})\b"


_RULE = re.compile(
    _search_words(_ENGLISH_RULES, _GERMAN_RULES, _ROMANCE_RULES, _RUSSIAN_RULES)
    + r"|(?:^|[.!?] )(?:no|keinen?|keine|sin|sans|sem|niente|nessun\w?|без) "
    r"(?!problem|worries|idea|need|thanks|luck|doubt)\w",
    re.MULTILINE,
)
_DECISION = re.compile(_search_words(_DECISIONS))
_ASIAN_RULE, _ASIAN_DECISION = re.compile(_ASIAN_RULES), re.compile(_ASIAN_DECISIONS)


def sets_rule(text: str) -> bool:
    """Whether *text*, which a user typed, sets a rule.

    >>> sets_rule("Fasse vendor/ nicht an."), sets_rule("Fix the parser.")
    (True, False)
    """
    return _finds(_RULE, _ASIAN_RULE, text)


def states_decision(text: str) -> bool:
    """Whether *text* decides something or names a cause.

    >>> states_decision("The root cause is a stale cursor."), states_decision("Let me look.")
    (True, False)
    """
    return _finds(_DECISION, _ASIAN_DECISION, text)


def _finds(words: re.Pattern[str], characters: re.Pattern[str], text: str) -> bool:
    if words.search(text.lower()):
        return True
    return not text.isascii() and characters.search(text) is not None
