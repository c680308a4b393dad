"""Answers in JSON: the schema that a script gives, the request for it, and the value in an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

from sidecar._internal.values import Value
from sidecar.commands.json_schema import Schema, SchemaError, check_schema, find_problems

_MOST_PROBLEMS: Final = 8
_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)


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
