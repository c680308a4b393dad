"""Answers in JSON: the schema that a script gives, the request for it, and the value in an answer.

A schema is a tree of assertions about one value and its parts. :func:`find_problems` walks schema and value
together; a keyword that holds adds nothing. The cost is the size of the value times the schemas that apply
to it, and ``$ref`` may not lead back to the same schema for the same value.

Known are the assertions of the draft 2020-12 but for ``unevaluated*``, ``$dynamicRef`` and references out of
the document: :func:`check_schema` refuses these, so that no schema is accepted and then not enforced.
Annotations, and ``format`` with them, assert nothing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from sidecar._internal.values import Value
from sidecar.text.clip import clip

Schema: TypeAlias = Mapping[str, Any] | bool

_MOST_PROBLEMS: Final = 8
_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)

_UNKNOWN: Final = ("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}
_ONE: Final = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SHOWN_CHARS: Final = 60
_LENGTHS: Final = (
    ("minLength", "maxLength", str, "characters"),
    ("minItems", "maxItems", list, "items"),
    ("minProperties", "maxProperties", dict, "members"),
)
_BOUNDS: Final[Sequence[tuple[str, str, Callable[[Any, Any], bool]]]] = (
    ("minimum", "at least", operator.ge),
    ("maximum", "at most", operator.le),
    ("exclusiveMinimum", "more than", operator.gt),
    ("exclusiveMaximum", "less than", operator.lt),
)


class SchemaError(ValueError):
    """The schema itself cannot be used; the message says where."""


def check_schema(schema: Any) -> None:
    """Raise SchemaError unless *schema* can be enforced whole.

    >>> check_schema({"properties": {"a": {"type": "text"}}})
    Traceback (most recent call last):
    ...
    sidecar.commands.structured_output.SchemaError: #/properties/a/type: 'text' is not a type
    """
    _check(schema, "#", schema)


def find_problems(schema: Schema, value: Any) -> Iterator[str]:
    """Yield the problems of *value*, each as a sentence that begins with its place.

    *schema* has passed :func:`check_schema`.

    >>> list(find_problems({"type": "object", "required": ["a"]}, {"b": 1}))
    ["the answer: the member 'a' is missing"]
    """
    yield from _Walk(schema).problems(schema, value, "the answer")


def _check(schema: Any, place: str, root: Any) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise SchemaError(f"{place}: a schema is an object, true or false, not {_show(schema)}")
    for name in _UNKNOWN:
        if name in schema:
            raise SchemaError(f"{place}: {name} is not supported")
    for name in _names(schema.get("type", [])):
        if name not in (*_TYPES, "number", "integer"):
            raise SchemaError(f"{place}/type: {name!r} is not a type")
    for pattern in (schema.get("pattern", ""), *schema.get("patternProperties", {})):
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise SchemaError(f"{place}: {pattern!r} is not a pattern: {error}") from None
    if "$ref" in schema:
        _follow(root, schema["$ref"], place)
    for name in _ONE:
        if name in schema:
            _check(schema[name], f"{place}/{name}", root)
    for name in _MANY:
        for at, each in enumerate(schema.get(name, ())):
            _check(each, f"{place}/{name}/{at}", root)
    for name in _NAMED:
        for key, each in schema.get(name, {}).items():
            _check(each, f"{place}/{name}/{key}", root)


def _follow(root: Any, reference: Any, place: str) -> Schema:
    """Return the schema at *reference*, such as ``#/$defs/name``. Raises SchemaError."""
    found = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise SchemaError(f"{place}: {reference!r} leads out of the schema, which is not supported")
    for part in reference.removeprefix("#").split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise SchemaError(f"{place}: the schema has nothing at {reference!r}") from None
    if not isinstance(found, dict | bool):
        raise SchemaError(f"{place}: {reference!r} is not a schema")
    return found


class _Walk:
    """One comparison of a value with the document *root*."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._entered: set[tuple[str, str]] = set()

    def problems(self, schema: Schema, value: Any, place: str) -> Iterator[str]:
        if isinstance(schema, bool):
            if not schema:
                yield f"{place}: nothing is allowed here"
            return
        if "$ref" in schema:
            step = (schema["$ref"], place)
            if step in self._entered:
                raise SchemaError(f"{schema['$ref']!r} leads back to itself")
            self._entered.add(step)
            yield from self.problems(_follow(self._root, schema["$ref"], "#"), value, place)
            self._entered.discard(step)
        yield from self.own_problems(schema, value, place)
        yield from self.combined_problems(schema, value, place)
        if isinstance(value, dict):
            yield from self.object_problems(schema, value, place)
        elif isinstance(value, list):
            yield from self.array_problems(schema, value, place)

    def holds(self, schema: Schema, value: Any, place: str) -> bool:
        return next(self.problems(schema, value, place), None) is None

    def own_problems(self, schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
        """Yield the problems of the value itself: its type, choice, size and range."""
        types = _names(schema.get("type", []))
        if types and not any(_is_type(value, name) for name in types):
            yield f"{place}: must be {' or '.join(types)}, not {_show(value)}"
        if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):
            yield f"{place}: must be one of {_show(schema['enum'])}, not {_show(value)}"
        if "const" in schema and not _is_same(value, schema["const"]):
            yield f"{place}: must be {_show(schema['const'])}, not {_show(value)}"
        for least, most, kind, unit in _LENGTHS:
            if isinstance(value, kind):
                if len(value) < schema.get(least, 0):
                    yield f"{place}: must have at least {schema[least]} {unit}, not {len(value)}"
                if most in schema and len(value) > schema[most]:
                    yield f"{place}: must have at most {schema[most]} {unit}, not {len(value)}"
        if isinstance(value, str) and re.search(schema.get("pattern", ""), value) is None:
            yield f"{place}: must match the pattern {schema['pattern']!r}"
        if _is_type(value, "number"):
            for name, words, is_within in _BOUNDS:
                if name in schema and not is_within(value, schema[name]):
                    yield f"{place}: must be {words} {schema[name]}, not {value}"
            quotient = value / (step := schema.get("multipleOf", value or 1))
            if abs(quotient - round(quotient)) > 1e-9 * max(1.0, abs(quotient)):
                yield f"{place}: must be a multiple of {step}, not {value}"

    def combined_problems(self, schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
        """Yield the problems with schemas that apply together, by choice or on a condition."""
        for each in schema.get("allOf", ()):
            yield from self.problems(each, value, place)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                found = [list(self.problems(each, value, place)) for each in schema[name]]
                n_held = sum(not problems for problems in found)
                if n_held == 0:
                    nearest = min(found, key=len, default=[])
                    yield f"{place}: matches none of the alternatives; {next(iter(nearest), '')}"
                elif n_held > 1 and name == "oneOf":
                    yield f"{place}: matches {n_held} of the alternatives, and must match one"
        if "not" in schema and self.holds(schema["not"], value, place):
            yield f"{place}: must not match {_show(schema['not'])}"
        if "if" in schema:
            branch = "then" if self.holds(schema["if"], value, place) else "else"
            yield from self.problems(schema.get(branch, True), value, place)

    def object_problems(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], place: str
    ) -> Iterator[str]:
        """Yield the problems of the members of an object."""
        needed = list(schema.get("required", ()))
        for name, others in schema.get("dependentRequired", {}).items():
            needed += others if name in value else ()
        for name in needed:
            if name not in value:
                yield f"{place}: the member {name!r} is missing"
        for name, each in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield from self.problems(each, value, place)
        own, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, member in value.items():
            inner = f"{place}.{name}"
            applying = [own[name]] if name in own else []
            applying += [each for pattern, each in patterns.items() if re.search(pattern, name)]
            if not applying and schema.get("additionalProperties", True) is False:
                yield f"{place}: the member {name!r} is not allowed"
                continue
            for each in applying or [schema.get("additionalProperties", True)]:
                yield from self.problems(each, member, inner)
            yield from self.problems(schema.get("propertyNames", True), name, f"the name {inner}")

    def array_problems(self, schema: Mapping[str, Any], value: Sequence[Any], place: str) -> Iterator[str]:
        """Yield the problems of the items of an array."""
        first = schema.get("prefixItems", [])
        for at, item in enumerate(value):
            each = first[at] if at < len(first) else schema.get("items", True)
            yield from self.problems(each, item, f"{place}[{at}]")
        if schema.get("uniqueItems") and any(
            _is_same(one, other) for at, one in enumerate(value) for other in value[:at]
        ):
            yield f"{place}: two items are the same"
        if "contains" in schema:
            n_found = sum(self.holds(schema["contains"], item, place) for item in value)
            least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
            if not least <= n_found <= most:
                yield f"{place}: {n_found} items match what it must contain, not {least} or more"


def _names(types: Any) -> Sequence[str]:
    return [types] if isinstance(types, str) else types


def _is_type(value: Any, name: str) -> bool:
    if name in ("number", "integer"):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and (name == "number" or value == int(value))
    return isinstance(value, _TYPES[name])


def _is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true and 1 are not, 1 and 1.0 are."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    return bool(one == other)


def _show(value: Any) -> str:
    return clip(json.dumps(value, ensure_ascii=False), _SHOWN_CHARS)


class OutputSchemaError(Exception):
    """The schema cannot be read or used; the message is for the user."""


class OutputSchema(Value):
    """The JSON Schema that an answer must match."""

    schema: Schema

    @classmethod
    def read(cls, given: str) -> OutputSchema:
        """Return the schema in the file *given*, or *given* itself where it is a JSON object.

        Raises OutputSchemaError.
        """
        try:
            text = given if given.lstrip().startswith("{") else Path(given).expanduser().read_text("utf-8")
            schema = json.loads(text)
            check_schema(schema)
        except OSError as error:
            raise OutputSchemaError(f"--output-schema {given}: {error.strerror}") from None
        except (SchemaError, ValueError, RecursionError) as error:
            raise OutputSchemaError(f"--output-schema is not a schema that can be used: {error}") from None
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
