"""Answers in JSON: the schema that a script gives, the request for it, and the value in an answer.

A schema is one of the draft 2020-12, and the library ``jsonschema`` compares a value with it. A schema that
could not be enforced whole is refused: one with a keyword that is not valid, or with a reference that leads
out of it. Annotations, and ``format`` with them, assert nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import best_match  # type: ignore[import-untyped]  # it ships no types
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from sidecar._internal.env import expand_home
from sidecar._internal.values import Value
from sidecar.text.clip import clip

Schema: TypeAlias = Mapping[str, Any] | bool

_MOST_PROBLEMS: Final = 8
_MOST_CHARS: Final = 300
"""The length of one problem, for it quotes the value."""

_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)


class SchemaError(ValueError):
    """The schema cannot be read or used; the message is for the user, and says where."""


def check_schema(schema: Any) -> None:
    """Raise SchemaError unless *schema* can be enforced whole.

    >>> check_schema({"$ref": "other.json"})
    Traceback (most recent call last):
    ...
    sidecar.commands.structured_output.SchemaError: '$ref': 'other.json' leads out of the schema, or nowhere
    """
    meta = Draft202012Validator(
        Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    if (wrong := best_match(meta.iter_errors(schema))) is not None:
        raise SchemaError(f"{'/'.join(('#', *map(str, wrong.absolute_path)))}: {wrong.message}")
    inside = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    targets: dict[str, Any] = {}
    for name, reference in _references(schema):
        try:
            if reference.startswith("#"):
                targets[reference] = inside.lookup(reference).contents
                continue
        except Unresolvable:
            pass
        raise SchemaError(f"{name!r}: {reference!r} leads out of the schema, or nowhere")
    for reference, target in targets.items():
        reached = [*_same_value(target, targets)]
        for part in reached:  # it grows
            reached += [each for each in _same_value(part, targets) if not _holds(reached, each)]
        if _holds(reached, target):
            raise SchemaError(f"{reference!r} leads back to itself")


def _holds(parts: Sequence[Any], part: Any) -> bool:
    return any(each is part for each in parts)


def _same_value(part: Any, targets: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas in *part*, and behind its references, that judge the same value."""
    if isinstance(part, Mapping):
        for name in ("$ref", "$dynamicRef"):
            if name in part:
                yield targets[part[name]]
        for name in ("allOf", "anyOf", "oneOf"):
            yield from part.get(name, ())
        yield from part.get("dependentSchemas", {}).values()
        yield from (part[name] for name in ("not", "if", "then", "else") if name in part)


def find_problems(schema: Schema, value: Any) -> Iterator[str]:
    """Yield the problems of *value*, each as a sentence that begins with its place.

    *schema* has passed :func:`check_schema`.

    >>> list(find_problems({"type": "object", "required": ["a"]}, {"b": 1}))
    ["the answer: 'a' is a required property"]
    """
    try:
        for error in Draft202012Validator(schema, registry=Registry()).iter_errors(value):
            nearest = best_match([error])
            place = nearest.json_path.replace("$", "the answer", 1)
            yield clip(f"{place}: {nearest.message}", _MOST_CHARS)
    except RecursionError:
        yield "the answer is nested too deeply to be compared with the schema"


def _references(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the references in a schema, each with its keyword."""
    if isinstance(part, Mapping):
        references = ((name, part.get(name)) for name in ("$ref", "$dynamicRef"))
        yield from ((name, each) for name, each in references if isinstance(each, str))
        part = list(part.values())
    for each in part if isinstance(part, list) else ():
        yield from _references(each)


class OutputSchema(Value):
    """The JSON Schema that an answer must match."""

    schema: Schema

    @classmethod
    def read(cls, given: str) -> OutputSchema:
        """Return the schema in the file *given*, or *given* itself where it is a JSON object.

        Raises SchemaError.
        """
        try:
            text = given if given.lstrip().startswith("{") else expand_home(given).read_text("utf-8")
            schema = json.loads(text)
            check_schema(schema)
        except OSError as error:
            raise SchemaError(f"--output-schema {given}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"--output-schema is not a schema that can be used: {error}") from None
        return cls(schema)

    @property
    def request(self) -> str:
        """The words that ask a model for an answer that matches."""
        shown = json.dumps(self.schema, ensure_ascii=False)
        return f"Answer with one JSON value that matches this JSON Schema, and with nothing else: {shown}"

    def request_again(self, problems: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return the prompt after an answer with *problems*."""
        listed = "\n".join(f"- {problem}" for problem in problems)
        text = f"The answer does not match the schema:\n{listed}\nAnswer again with the JSON value alone."
        return [{"type": "text", "text": text}]

    def parse(self, answer: str) -> tuple[Any, Sequence[str]]:
        """Return the value in *answer*, and its problems, some of them where there are many.

        The value is the whole answer, or the last block of code in it.

        >>> OutputSchema({"type": "integer"}).parse("Here it is:\\n```json\\n3\\n```")
        (3, ())
        """
        blocks = _FENCED.findall(answer)
        try:
            value = _loads(answer)
        except (ValueError, RecursionError) as error:
            try:
                value = _loads(blocks[-1]) if blocks else None
            except (ValueError, RecursionError) as inner:
                return None, (f"the last block of code is not JSON: {inner}",)
            if not blocks:
                return None, (f"the answer is not JSON: {error}",)
        return value, tuple(islice(find_problems(self.schema, value), _MOST_PROBLEMS))


def _loads(text: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text.strip(), parse_constant=refuse)
