"""The rules of a session as values: changes in the order of their times, folded to rules.

Nothing that is said once becomes a rule by itself. A rule is set by hand, or proposed by the model that
writes a summary: with a quote that is checked against the words that the user typed, and a scope. Only a
*standing* wish is proposed; one for the task at hand, or for this moment, is none. The model is shown the
rules that hold, and says which the user has taken back since, with a quote that is checked as well.

Pure; nothing here knows the path of the conversation, or how the rules are sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conductor.contract import RuleRevocation, RuleSource, RuleStatement, SessionRule
from sidecar.text.clip import one_line
from sidecar.text.typed import hide_pasted_text

MAX_RULE_CHARS: Final = 2_000
MAX_STATEMENTS: Final = 12
"""How many statements on rules one summary may make."""

LEAST_QUOTE_CHARS: Final = 4
SENTENCE_CHARS: Final = 300
"""A quote stands for the whole sentence around it, unless that is longer."""

REQUEST: Final = """\
Behind the summary, and not as a part of it, write a block about the user's standing rules:

<rules>
standing: "a wish for all further work until it is taken back, such as a convention or a prohibition"
task: "a wish for the task at hand alone"
moment: "a wish for this moment alone, such as to wait or to change nothing yet"
ended RULE-ID: "the words with which the user took that rule back, or allowed what it forbids"
conflict RULE-ID: "later words of the user that may contradict that rule, where it is not clear"
</rules>

Quote the user's own words, whole sentences, exactly as they were typed: nothing that the user pasted or
quoted, no wishes of other people, and no requirements on the program. Leave out kinds that do not occur."""

RULES_MARK: Final = "<rules>"
"""Begins the block about rules in the answer of a model."""

_BLOCK: Final = re.compile(
    r"\n*^[ \t]*<rules>[ \t]*$(.*?)(?:^[ \t]*</rules>[ \t]*$\n?|\Z)", re.DOTALL | re.MULTILINE
)
_STATEMENT: Final = re.compile(
    r"\W*(standing|ended|conflict)\b[ \t]*(r[0-9a-f]{6})?[ \t]*:[ \t]*(\S.*)", re.IGNORECASE
)
_QUOTES: Final = "\"'“”„«»「」` \t"
_END: Final = re.compile(r"[.!?](?=\s)|[。！？\n|]")
_LIST: Final = re.compile(r"^#+ (?:Guardrails|Rules)\b[^\n]*\n((?:(?!#)[^\n]*(?:\n|\Z))*)", re.MULTILINE)
_HIDDEN: Final = "·"


class RuleChange(Value, kw_only=True):
    """A change of the rules.

    Attributes:
        id: the rule.
        action: whether the rule was set, withdrawn, kept by the user, or may be contradicted by *text*.
        text: the text of the rule; the user's words where a summary says that they end or contradict it.
        source: ``user`` by hand; ``summary`` where a model's summary quotes the prompt *node_id*; ``found``
            where an earlier version found the rule in it.
        at: the time in epoch milliseconds.
        node_id: the prompt of the words, None for a change by hand.
    """

    id: str
    action: Literal["add", "remove", "keep", "conflict"]
    text: str
    source: RuleSource
    at: int
    node_id: str | None = None


class RuleNote(Value, kw_only=True):
    """The note below the prompt *node_id*: the texts of rules that were set, and of rules withdrawn."""

    node_id: str
    added: tuple[str, ...]
    ended: tuple[str, ...]


def ask_about_rules(rules: Iterable[SessionRule]) -> str:
    """Return the text with which a model that writes a summary is asked about the user's rules."""
    lines = [
        f"- {rule.id}: {rule.text}" + "".join(f" (contradicted? {words})" for words in rule.conflicts)
        for rule in rules
    ]
    return "\n".join([REQUEST, "", "The rules that hold:", *(lines or ["none"])])


def split_statements(reply: str) -> tuple[str, tuple[RuleStatement, ...]]:
    """Return *reply* without its block about rules, and the statements of that.

    >>> split_statements('# Plan\\nship\\n<rules>\\nstanding: "Use tabs."\\nmoment: "Wait."\\n</rules>')
    ('# Plan\\nship', (RuleStatement(kind='standing', rule_id='', quote='Use tabs.'),))
    """
    found = _BLOCK.search(reply)
    if found is None:
        return reply, ()
    statements: list[RuleStatement] = []
    for line in found[1].splitlines():
        if (stated := _STATEMENT.fullmatch(line.strip())) is not None:
            kind, rule_id, quote = stated[1].lower(), (stated[2] or "").lower(), stated[3].strip(_QUOTES)
            if kind == "standing":
                statements.append(RuleStatement("standing", "", quote))
            elif rule_id:
                statements.append(RuleStatement("ended" if kind == "ended" else "conflict", rule_id, quote))
    rest = f"{reply[: found.start()]}\n{reply[found.end() :]}".strip("\n")
    return rest, tuple(statements[:MAX_STATEMENTS])


def find_words(quote: str, prompts: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the node of the first of *prompts* in which its user typed *quote*, and the sentence there.

    Blanks and case do not count. Words in a paste or in a quotation are not the user's, and a question states
    nothing: then the result is None.

    >>> find_words("never push", [("a", "> never push"), ("b", "ok. Please never push to main. Go on.")])
    ('b', 'Please never push to main.')
    """
    words = quote.split()
    if sum(map(len, words)) < LEAST_QUOTE_CHARS:
        return None
    wanted = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    for node_id, text in prompts:
        typed = hide_pasted_text(text.replace("|", "¦"))  # a table may be typed as well
        for found in wanted.finditer(text):
            start, end = found.span()
            hidden = typed[start:end].count(_HIDDEN) - text[start:end].count(_HIDDEN)
            if typed[start] in (text[start], "¦") and 2 * hidden < end - start:
                sentence = sentence_around(text, start, end)
                if not sentence.endswith(("?", "？", "؟")):
                    return node_id, one_line(sentence, MAX_RULE_CHARS)
    return None


def sentence_around(text: str, start: int, end: int) -> str:
    """Return the sentence of *text* around the part from *start* to *end*, or the part where it is long."""
    begins = [each.end() for each in _END.finditer(text, max(0, start - SENTENCE_CHARS), start)]
    begin = begins[-1] if begins else max(0, start - SENTENCE_CHARS)
    after = _END.search(text, max(start, end - 1), end + SENTENCE_CHARS)
    stop = len(text[: end + SENTENCE_CHARS]) if after is None else after.end()
    found = text[begin:stop].strip("-*•| \t\n")
    return found if len(found) <= SENTENCE_CHARS else text[start:end]


def changes_of_statements(
    statements: Iterable[RuleStatement],
    prompts: Mapping[str, str],
    times: Mapping[str, int],
    rules: Sequence[SessionRule],
) -> Iterator[RuleChange]:
    """Yield the changes of *rules* that a model's *statements* make, as far as their quotes are right.

    Args:
        statements: the statements.
        prompts: the texts of the prompts by their nodes, oldest first.
        times: the times of the prompts in epoch milliseconds, by their nodes.
        rules: all rules, with the ended ones: a rule that the user dismissed is not proposed again.
    """
    holding = {rule.id: rule for rule in rules if rule.holds}
    known = [_plain(rule.text) for rule in rules]
    for each in statements:
        newest_first = each.kind != "standing"
        ordered = reversed([*prompts.items()]) if newest_first else prompts.items()
        found = find_words(each.quote, ordered)
        if found is None:
            continue
        node, words = found
        if each.kind == "standing":
            plain = _plain(words)
            if not any(plain in text or text in plain for text in known):
                known.append(plain)
                yield RuleChange(
                    id=rule_id(node, words),
                    action="add",
                    text=words,
                    source="summary",
                    at=times[node],
                    node_id=node,
                )
        elif (
            (rule := holding.get(each.rule_id)) is not None and times[node] >= rule.at and words != rule.text
        ):
            action: Literal["remove", "conflict"] = "remove" if each.kind == "ended" else "conflict"
            if action == "remove" or words not in rule.conflicts:
                yield RuleChange(
                    id=rule.id, action=action, text=words, source="summary", at=times[node], node_id=node
                )


def find_earlier_rules(
    summaries: Iterable[str], prompts: Mapping[str, str], times: Mapping[str, int]
) -> Iterator[RuleChange]:
    """Yield the rules that an earlier version found in *prompts* and wrote into its *summaries*.

    Args:
        summaries: the texts of summaries that earlier versions wrote.
        prompts: the texts of the prompts by their nodes, oldest first.
        times: the times of the prompts in epoch milliseconds, by their nodes.
    """
    lines = dict.fromkeys(
        line.strip('-*• \t"')
        for summary in summaries
        for section in _LIST.findall(summary)
        for line in section.splitlines()
        if line.lstrip().startswith("-")
    )
    for line in lines:
        found = find_words(line, prompts.items())
        if found is not None and len(line) >= LEAST_QUOTE_CHARS:
            node, _ = found
            yield RuleChange(
                id=rule_id(node, line), action="add", text=line, source="found", at=times[node], node_id=node
            )


def rule_id(*parts: str) -> str:
    """Return the id of a rule, which people can type.

    >>> rule_id("node", "0")
    'r89483e'
    """
    return f"r{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"


def fold_rules(changes: Iterable[RuleChange]) -> tuple[SessionRule, ...]:
    """Return every rule that *changes* set, oldest first, as the later ones left it.

    A rule with the words of one that holds is that one; said by hand, it is kept.
    """
    rules: dict[str, SessionRule] = {}
    for change in sorted(changes, key=lambda change: (change.at, change.action != "add")):
        same = (rule.id for rule in rules.values() if rule.holds and _plain(rule.text) == _plain(change.text))
        key = change.id if change.id in rules else next(same, None)
        if key is None or (change.action == "add" and not rules[key].holds):
            if change.action == "add":
                rules[change.id] = SessionRule(
                    id=change.id,
                    text=change.text,
                    source=change.source,
                    at=change.at,
                    node_id=change.node_id,
                    quote=None if change.node_id is None else change.text,
                    proposed=change.source != "user",
                )
        elif change.action == "conflict":
            rules[key] = replace(rules[key], conflicts=(*rules[key].conflicts, change.text))
        elif change.action == "remove":
            words = None if change.source == "user" else change.text
            by = RuleRevocation(
                "user" if words is None else "summary", change.at, words, change.node_id if words else None
            )
            rules[key] = replace(rules[key], holds=False, proposed=False, revoked_by=by)
        elif change.source == "user":
            rules[key] = replace(rules[key], proposed=False)
    return tuple(rules.values())


def check_rule(text: str) -> str:
    """Return *text* as the text of a rule, on one line. Raises InvalidInput."""
    rule = one_line(text.strip(), MAX_RULE_CHARS + 1)
    if not rule:
        raise InvalidInput("the rule is empty", hint="say it after the command, such as /remember never push")
    if len(rule) > MAX_RULE_CHARS:
        raise InvalidInput(
            f"the rule has more than {MAX_RULE_CHARS:,} characters", hint="say it in fewer words"
        )
    return rule


def find_rule(rules: Sequence[SessionRule], wanted: str) -> SessionRule:
    """Return the rule of *rules* with the id *wanted*, or the only one with these words.

    Raises InvalidInput for none, and for several.
    """
    words = wanted.casefold().split()
    found = [rule for rule in rules if rule.id == wanted]
    found = found or [rule for rule in rules if words and all(word in rule.text.casefold() for word in words)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(
            f"no rule that holds has the id or the words {wanted!r}", hint="/rules lists the rules"
        )
    ids = ", ".join(rule.id for rule in found[:8])
    raise InvalidInput(f"{len(found)} rules have the words {wanted!r}", hint=f"name one by its id: {ids}")


def list_rules(*parts: tuple[str, Iterable[str]]) -> str:
    """Return rules under their titles; parts without rules are left out.

    >>> list_rules(("Rules:", ["be brief"]), ("Ended:", []))
    'Rules:\\n- be brief'
    """
    shown = ((title, [f"- {rule}" for rule in rules]) for title, rules in parts)
    return "\n".join("\n".join((title, *rules)) for title, rules in shown if rules)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!。！")
