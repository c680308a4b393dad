"""The rules of a user, as statements over time, with the later ones that took them back.

A sentence that the user typed may set a rule ("never push to main"), allow something ("you may push to main
now") or take a rule back by name ("forget the rule about tabs"). The later statement stands:

* a permission ends the rules about the same thing;
* a rule ends an earlier one about the same thing that says the opposite, or names another number;
* a rule ends an earlier one that chose another value where only one can hold, such as tabs or spaces;
* where only a part of the words agrees it is not clear. Then both stand, and each names the other.

The subject of a statement is the words of its first clause, without function words and words of order. Two
words are the same where they agree but for their endings, so that "pushing" is "push";
of Chinese and Japanese text each ideograph is a word.

For example "Never push to main." is about *push* and *main*. "You may push to main now." covers both and ends
it; "you may push now" covers one and only disputes it; "you may rename files" has nothing to do with it.

Cost: finding the statements of a text is linear in its length, and of a long one only the two ends are
searched. Adding a statement costs the rules that share a word with it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.text.typed import hide_pasted_text
from sidecar.window_budget.choices import RuleChoice, find_choice
from sidecar.window_budget.facts import find_rule_sentences
from sidecar.window_budget.language import NEGATION
from sidecar.window_budget.wording import find_permission, sets_rule

CLEAR_SHARE: Final = 0.75
"""A statement that covers this share of a rule's words is about the same thing."""

UNCLEAR_SHARE: Final = 0.5
"""A statement that covers less of them has nothing to do with it."""

MAX_NEAR: Final = 64
"""How many rules one statement is held against."""

CHOICE_CHARS: Final = 300
"""A choice is made in so many characters."""

_WORD: Final = re.compile(r"[\w./@~'-]+")
_ELISION: Final = re.compile(r"\b(?:l|d|n|qu|c|j|s|m|t)'(?=\w{2})")
_ASIAN: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]+")
_ASIAN_WORD: Final = re.compile(r"[\u4e00-\u9fff]|[\u30a0-\u30ff]+|[\uac00-\ud7af]{2}")
_NAME: Final = re.compile(r".*[\d/._]|.+-.")
_ENDING: Final = re.compile(
    r"(?:ing|ed|es|er|ar|ir|en|an|as|os|is|ez|e|a|o|(?<!s)s|n|i|uj|ować|aj|ać|ij|ić|yć|ь|[иаяеу]ть|[аяу]?й|и)\Z"
)
_ACCENTS: Final = str.maketrans("áéíóúàèìòùâêîôûäëïöüçñ", "aeiouaeiouaeiouaeioucn")
_CLAUSE_END: Final = re.compile(
    r"[,;:，；：]\s?|\s[-–—]\s|\s(?:because|but|since|as|until|unless|before|after|when|if|whenever|weil"
    r"|aber|denn|bis"
    r"|bevor|nachdem|wenn|falls|porque|pero|antes|cuando|car|mais|parce que|avant|quand|mas|quando|perché"
    r"|prima"
    r"|потому что|но|перед|если|когда)\s"
)
_CLAUSES: Final = re.compile(r"[;；，。]|[,.:!?]\s")
_ORDER_CHARS: Final = re.compile(
    r"任何东西|任何|什么|关于|规则|作废|不要再|不要|不得|不可以|不可|不许|不准|不能|禁止|务必|必须|始终|总是|永远|绝不|切勿|请勿|只能|只用"
    r"|从现在起|从现在开始|以后都|避免|确保|现在"
    r"|可以|允许|不再|不用|了|请|的|再|吗|把|也"
    r"|何も|ルール|無効|ていいよ?|ていい|ないでください|しないで|してはいけません|しては|てはいけない|てはならない|なければならない|必ず|常に"
    r"|絶対に|決して|今後は|これからは|今は|今"
    r"|てもいいです|てもいい|てもよい|ても構いません|してください|ください|です|ます|から|には|では|を|に"
    r"|は|が|も|で|と|の|こと|し|て"
    r"|아무것도|규칙은?|적용되지|않습니다|하지 ?마세요|지 ?마세요"
    r"|하지 ?마|지 ?말|반드시|항상|절대로?|결코|앞으로는?|지금부터|이제는?"
    r"|해도 ?됩니다|도 ?됩니다|도 ?돼요?|해도|합니다|하세요|세요"
    r"|해주세요|을|를|은|는|이|가|에|도"
)
_STOP_WORDS: Final = """
a an the to of in on at by for from with and or any it this that these those is are be am was will would i
you we they he she me my our your please now again also anymore more just ever always never not no do does
don't dont must mustn't should shouldn't shall may might can could only use uses using make sure ensure
avoid keep remember allowed ok okay fine feel free need needs have has go ahead rule rules about forget
earlier longer applies apply ban lift drop ignore said than all every each so then if there here it's am's
without der die das den dem des ein eine einen einem einer und oder auf im zu zum zur mit von für du sie ihr
wir ich darf darfst dürfen dürft kannst können könnt muss musst müssen soll sollst bitte nicht nie niemals
kein keine keinen immer stets nur noch jetzt nun wieder ab mehr ist sind verwende benutze nutze erlaubt
regel el la los las un una unos unas y o de del al en con por para que nunca jamás siempre ahora ya puedes
pueden puede debes deben debe usa usar utiliza solo sin favor más está permitido regla le les l une et ou au
aux dans avec pour par ne pas plus jamais toujours tu vous peux pouvez peut maintenant désormais il faut
doit dois devez être utilise utiliser règle os as um uma e da dos na em com não sempre agora você pode podem
deve devem é regra mais já lo gli di della dei nel nella per non mai ora puoi potete può devi usare più
regola и в во на с со к по из от для не ни никогда всегда нельзя можно можешь можете теперь больше должен
должна должны используй используйте ты вы мы это пожалуйста правило надо нужно снова gilt gelten hinfällig
aufgehoben vergiss streiche ignoriere olvida ignora quita oublie supprime esqueça remova dimentica togli
забудь отмени сними scrap revoke withdraw disregard cancel lifted gone void cancelled obsolete hold holds
anything nothing something nichts etwas nada algo rien nulla niente qualcosa ничего nic niczego cokolwiek
already już możesz możecie można zasada zasadzie reguła ban said told sobre aplica vale obowiązuje dotyczy nie
na do w z i o od dla po proszę tylko zawsze nigdy
remove under over within aus i'd prefer really rather much but appreciate
"""
"""Words of any of the languages that say nothing of what a sentence is about."""

_STOP: Final = frozenset(_STOP_WORDS.split())
_RELEASE: Final = re.compile(
    r"no longer|no need|needn't|(?:don't|do not) (?:need|have) to|any ?more|nicht mehr|keine? \w+ mehr|brauch"
    r"|ya no|plus besoin|n'est plus|não precisa|já não|non (?:serve|occorre)|non è più|больше не|不用|不必"
    r"|不再|无需"
    r"|必要は|なくて|필요"
)
"""Words of a permission that end a demand."""

_NUMBER: Final = re.compile(r"\d[\d.,_]*\w?")

StatementKind = Literal["rule", "permission", "withdrawal"]
Relation = Literal["ends", "disputes"]


class Statement(Value, kw_only=True):
    """One sentence of a user about the rules.

    Attributes:
        text: the sentence, word for word.
        kind: a rule, a permission, or the withdrawal of a rule by that name.
        words: its subject.
        is_ban: whether it forbids; of a permission, whether it says that something need not be.
        choice: of a demand, the value that it chooses, None for none.
    """

    text: str
    kind: StatementKind
    words: frozenset[str]
    is_ban: bool
    choice: RuleChoice | None = None


def find_statements(text: str) -> tuple[Statement, ...]:
    """Return the statements in a prompt, in order; pasted and quoted text makes none.

    >>> [(each.kind, each.text) for each in find_statements("Go on. Never push. You may rename a.py now.")]
    [('rule', 'Never push.'), ('permission', 'You may rename a.py now.')]
    """
    found: list[Statement] = []
    for sentence in find_rule_sentences(text):
        found += state(sentence)
    return tuple(found)


def state(sentence: str, *, is_rule: bool = False) -> Iterator[Statement]:
    """Yield the statements of *sentence*: a permission, a rule, or both in two clauses.

    Args:
        sentence: one sentence.
        is_rule: whether the user called it a rule; then its words need not say so.
    """
    typed = hide_pasted_text(sentence)
    allowed = None if is_rule else find_permission(typed)
    rest = typed
    if allowed is not None:
        start, end, is_withdrawal = allowed
        after = _CLAUSE_END.search(typed, end)
        before = [each.end() for each in _CLAUSE_END.finditer(typed, 0, start)]
        first, last = (before[-1] if before else 0), (after.start() if after else len(sentence))
        kind: StatementKind = "withdrawal" if is_withdrawal else "permission"
        yield Statement(
            text=sentence,
            kind=kind,
            words=content_words(sentence[first:last]),
            is_ban=bool(_RELEASE.search(typed.lower())),
        )
        rest = typed[last:].lstrip(" ,;:")
        rest = re.sub(r"^(?:but|aber|pero|mais|mas|ma|но)\s", "", rest)
    if is_rule or sets_rule(rest):
        clause = rest
        if (stop := _CLAUSE_END.search(rest, len(rest) // 4)) is not None and sets_rule(rest[: stop.start()]):
            # "It is forbidden, under any name, to ..." says its subject behind the comma.
            clause = rest[: stop.start()] if len(content_words(rest[: stop.start()])) > 1 else rest
        yield Statement(
            text=sentence,
            kind="rule",
            words=content_words(clause),
            is_ban=bool(NEGATION.search(clause)),
            choice=find_choice(clause[:CHOICE_CHARS], content_stems),
        )


def content_words(clause: str) -> frozenset[str]:
    """Return the subject of a clause, as words in lower case.

    >>> sorted(content_words("Never push to src/api.py!"))
    ['push', 'src/api.py']
    """
    lower = clause.lower().replace("’", "'")
    words = {word.strip(".-~'") for word in _WORD.findall(_ELISION.sub(" ", _ASIAN.sub(" ", lower)))}
    words.update(_ASIAN_WORD.findall(_ORDER_CHARS.sub(" ", lower)))
    return frozenset(word for word in words if word and word not in _STOP)


def content_stems(clause: str) -> frozenset[str]:
    """Return the subject of a clause as words without their endings."""
    return frozenset(map(_stem, content_words(clause)))


@lru_cache(maxsize=4_096)
def same_word(left: str, right: str) -> bool:
    """Whether two words are forms of one.

    >>> same_word("pushing", "push"), same_word("anfassen", "fass"), same_word("commit", "comment")
    (True, True, False)
    """
    if left == right or not (left.isalpha() and right.isalpha()):
        return left == right
    short, long = sorted((_stem(left), _stem(right)), key=len)
    return short == long or (len(short) >= 4 and short[: max(4, len(short) - 1)] in long)


def weigh(words: Iterable[str]) -> int:
    """Return how much *words* say of a subject; a name, as of a file or a branch, says twice as much."""
    return sum(2 if _NAME.match(word) else 1 for word in words)


def _stem(word: str) -> str:
    plain = word.translate(_ACCENTS).replace("qu", "c")
    return _ENDING.sub("", plain) if len(plain) > 3 else plain


def relate(newer: Statement, older: Statement) -> Relation | None:
    """Return the effect of *newer* on *older*, a standing rule that does not say the same way; None for none.

    >>> never, may = find_statements("Never push to main. You may push to main now.")
    >>> relate(may, never)
    'ends'
    """
    if not older.words or not newer.words:
        return None
    shared = {word for word in older.words if any(same_word(word, each) for each in newer.words)}
    covered = weigh(shared) / weigh(older.words)
    if newer.kind == "withdrawal":
        if (names := {*filter(_NAME.match, newer.words)}) and names <= older.words:
            return "ends"
        named = sum(any(same_word(word, each) for each in older.words) for word in newer.words)
        return "ends" if named / len(newer.words) >= CLEAR_SHARE else None
    differs = older.words - shared
    # Two statements that name different files or values are about different things.
    if any(map(_NAME.match, differs)) and not any(map(_NAME.match, shared)) and newer.is_ban != older.is_ban:
        return None
    if newer.kind == "permission" and not (older.is_ban or newer.is_ban):
        # To go ahead with something takes back no wish about it, unless it says that the wish is over.
        return "disputes" if covered >= CLEAR_SHARE else None
    if covered >= CLEAR_SHARE:
        return "ends"
    is_near = covered >= UNCLEAR_SHARE and (newer.kind == "permission" or len(shared) > 1)
    return "disputes" if is_near else None


def find_turned(line: str, rules: Sequence[Statement]) -> Statement | None:
    """Return the first of *rules* that *line*, written by somebody else, turns round; None for none.

    A clause of it says the opposite about the same thing, in two words at least, or chooses another value.

    >>> find_turned("- pushing to main is fine", find_statements("Never push to main."))  # doctest: +ELLIPSIS
    Statement(text='Never push to main.', ...)
    """
    chooses = any(rule.choice for rule in rules)
    choice = find_choice(line[:CHOICE_CHARS], content_stems) if chooses else None
    clauses = [(content_words(each), NEGATION.search(each) is not None) for each in _CLAUSES.split(line)]
    starts = [_starts(words) for words, _ in clauses]
    for rule in rules:
        chosen = rule.choice
        if choice and chosen and choice.slot == chosen.slot and choice.value != chosen.value:
            return rule
        for (words, is_ban), known in zip(clauses, starts, strict=True):
            if is_ban == rule.is_ban or len(known & _starts(rule.words)) < 2:
                continue
            n_shared = sum(any(same_word(word, each) for each in words) for word in rule.words)
            if n_shared >= max(2, CLEAR_SHARE * len(rule.words)):
                return rule
    return None


class Ruling(Struct):
    """A rule, and the statements against it.

    Attributes:
        ended_by: the key of the statement that took it back, None while it holds.
        disputed_by: the keys of later statements that may have.
    """

    key: str
    statement: Statement
    ended_by: str | None = None
    disputed_by: list[str] = field(default_factory=list)


class Rulings:
    """The rules of a conversation, statement by statement, oldest first.

    >>> rulings = Rulings()
    >>> for number, each in enumerate(find_statements("Never push to main. You may push to main now.")):
    ...     rulings.add(str(number), each)
    >>> [(ruling.statement.text, ruling.ended_by) for ruling in rulings.all()]
    [('Never push to main.', '1')]
    """

    def __init__(self) -> None:
        self._rulings: dict[str, Ruling] = {}
        self._by_start: defaultdict[tuple[bool, str], dict[str, None]] = defaultdict(dict)
        self._by_subject: dict[tuple[bool, frozenset[str], RuleChoice | None], dict[frozenset[str], str]] = {}
        self._by_slot: defaultdict[Hashable, dict[str, str]] = defaultdict(dict)

    def all(self) -> Iterable[Ruling]:
        """Return every rule, oldest first, also the rules that were taken back."""
        return self._rulings.values()

    def add(self, key: str, statement: Statement) -> None:
        """Take in a statement that is later than all others; *key* names it from now on."""
        disputed: list[str] = []
        for other in self._near(statement):
            relation = relate(statement, self._rulings[other].statement)
            if relation == "ends":
                self.end(other, key)
            elif relation == "disputes":
                self._rulings[other].disputed_by.append(key)
                disputed.append(other)
        if statement.kind != "rule":
            return
        stems = frozenset(map(_stem, statement.words)) or frozenset((statement.text,))
        numbers = frozenset(filter(_NUMBER.fullmatch, stems))
        subject = statement.is_ban, stems - numbers, statement.choice
        known = self._by_subject.setdefault(subject, {})
        standing = {said: other for said, other in known.items() if self._rulings[other].ended_by is None}
        if numbers in standing:
            return
        for said, other in standing.items() if numbers and stems != numbers else ():
            if len(said) == len(numbers):
                self.end(other, key)
        known[numbers] = key
        disputed += self.settle_choice(key, statement.choice)
        self._rulings[key] = Ruling(key, statement, disputed_by=disputed)
        for start in _starts(statement.words):
            self._by_start[statement.is_ban, start][key] = None

    def settle_choice(self, key: str, choice: RuleChoice | None) -> list[str]:
        """End or dispute the standing rules that chose another value; return the disputed ones."""
        if choice is None:
            return []
        known = self._by_slot[choice.slot]
        others = [other for other, value in known.items() if value != choice.value and other in self._rulings]
        standing = [other for other in others if self._rulings[other].ended_by is None]
        known[key] = choice.value
        for other in standing:
            if choice.is_exclusive:
                self.end(other, key)
            else:
                self._rulings[other].disputed_by.append(key)
        return [] if choice.is_exclusive else standing

    def _near(self, statement: Statement) -> list[str]:
        """Return the standing rules that share most words with *statement* and do not say the same way."""
        sides = (True, False) if statement.kind != "rule" else (not statement.is_ban,)
        counts = Counter(
            key
            for side in sides
            for start in _starts(statement.words)
            for key in self._by_start.get((side, start), ())
            if self._rulings[key].ended_by is None
        )
        return [key for key, _ in counts.most_common(MAX_NEAR)]

    def end(self, key: str, by: str) -> None:
        """Take the rule *key* back because of *by*; nothing where there is none."""
        if key in self._rulings:
            self._rulings[key].ended_by = by


@lru_cache(maxsize=4_096)
def _starts(words: frozenset[str]) -> frozenset[str]:
    """Return keys that forms of one word share: a name whole, of any other word the beginning."""
    return frozenset(word if _NAME.match(word) else word[:3] for word in words)
