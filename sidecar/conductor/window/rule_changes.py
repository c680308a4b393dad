"""The rules of a session as values: statements of the user in the order of their times, folded to rules.

A statement comes from a prompt, or is a change that was made by hand. Pure; nothing here knows the path of
the conversation, or how the rules are sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conductor.rule_shapes import RuleRevocation, RuleSource, SessionRule
from sidecar.text.clip import one_line
from sidecar.text.typed import hide_pasted_text
from sidecar.window_budget.rules import Rulings, Statement, find_statements, state

MAX_RULE_CHARS: Final = 2_000
MAX_QUOTES: Final = 12
"""How many rules one summary may propose."""

_RULES_HEADING: Final = re.compile(r"^#.*\b(?:guardrail|constraint|rule|preference)s?\b.*$", re.IGNORECASE)
_QUOTE: Final = re.compile(
    r'"([^"\n]{8,400})"|“([^”\n]{8,400})”|„([^“”\n]{8,400})[“”]|«([^»\n]{8,400})»|「([^」\n]{4,400})」'
)
_SENTENCE: Final = re.compile(r"[^\n]+?(?:[.!?](?=\s|$)|[。！？]|(?=\n)|$)")


class RuleChange(Value, kw_only=True):
    """A change of the rules that the wording of no prompt makes.

    Attributes:
        id: the rule.
        action: whether the rule was set or withdrawn.
        text: the text of the rule.
        source: ``user`` by hand; ``summary`` when a model's summary quoted it from the prompt *node_id*.
        at: the time in epoch milliseconds.
        node_id: the prompt of the rule, None for a rule by hand.
    """

    id: str
    action: Literal["add", "remove"]
    text: str
    source: Literal["user", "summary"]
    at: int
    node_id: str | None = None


class RuleNote(Value, kw_only=True):
    """The note below the prompt *node_id*: the texts of rules that were set, and of rules withdrawn."""

    node_id: str
    added: tuple[str, ...]
    ended: tuple[str, ...]


class Said(Value, kw_only=True):
    """One statement with its place in time; without a *statement* it withdraws the rule *id*."""

    id: str
    at: int
    text: str
    source: RuleSource
    node_id: str | None = None
    statement: Statement | None = None


def statements_of_prompt(text: str, node_id: str, at: int, imported_at: int) -> tuple[Said, ...]:
    """Return the statements in a prompt.

    Args:
        text: the prompt.
        node_id: its node.
        at: the time of the node, in epoch milliseconds.
        imported_at: the time at which the session was imported, 0 for never.
    """
    source: RuleSource = "imported" if at <= imported_at else "prompt"
    return tuple(
        Said(
            id=rule_id(node_id, str(number)),
            at=at,
            text=each.text,
            source=source,
            node_id=node_id,
            statement=each,
        )
        for number, each in enumerate(find_statements(text))
    )


def statement_of_change(change: RuleChange) -> Said:
    """Return *change* as a statement."""
    stated = next(state(change.text, is_rule=True)) if change.action == "add" else None
    return Said(
        id=change.id,
        at=change.at,
        text=change.text,
        source=change.source,
        node_id=change.node_id,
        statement=stated,
    )


def rule_id(*parts: str) -> str:
    """Return the id of a rule, which people can type.

    >>> rule_id("node", "0")
    'r89483e'
    """
    return f"r{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"


def fold_rules(said: Iterable[Said]) -> tuple[SessionRule, ...]:
    """Return every rule in *said*, oldest first, as the later statements left it."""
    rulings, by_id = Rulings(), dict[str, Said]()
    revocations: dict[str | None, RuleRevocation] = {}
    for each in sorted(said, key=lambda each: (each.at, each.statement is None)):
        if each.statement is None:
            revocations[f"/forget {each.id}"] = RuleRevocation("user", each.at)
            rulings.end(each.id, f"/forget {each.id}")
        elif each.id not in by_id:
            by_id[each.id] = each
            revocations[each.id] = RuleRevocation(each.source, each.at, each.text, each.node_id)
            rulings.add(each.id, each.statement)
    return tuple(
        SessionRule(
            id=each.key,
            text=by_id[each.key].text,
            source=by_id[each.key].source,
            at=by_id[each.key].at,
            node_id=by_id[each.key].node_id,
            quote=None if by_id[each.key].node_id is None else by_id[each.key].text,
            holds=each.ended_by is None,
            revoked_by=revocations.get(each.ended_by),
            conflicts=() if each.ended_by else tuple(by_id[key].text for key in each.disputed_by),
        )
        for each in rulings.all()
    )


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


def find_quotes(summary: str, prompts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the sentences of *prompts* that *summary* quotes as rules, each with the node of its prompt.

    A quote stands below a heading of rules, in quotation marks. It counts only where it is a whole sentence
    that the user typed, and no question.

    Args:
        summary: a model's summary.
        prompts: the text of each prompt, by its node.
    """
    quotes: dict[str, None] = {}
    is_inside = False
    for line in summary.splitlines():
        if line.startswith("#"):
            is_inside = _RULES_HEADING.match(line) is not None
        elif is_inside:
            quotes.update({_plain("".join(found)): None for found in _QUOTE.findall(line)})
    wanted = dict(list(quotes.items())[:MAX_QUOTES])
    for node_id, text in prompts.items() if wanted else ():
        for found in _SENTENCE.finditer(hide_pasted_text(text)):
            typed = one_line(text[found.start() : found.end()].strip("-* \t"), MAX_RULE_CHARS)
            if _plain(typed) in wanted and not typed.endswith("?"):
                del wanted[_plain(typed)]
                yield node_id, typed


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!。！")
