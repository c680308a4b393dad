"""Secrets: masking them in a text before it reaches a log or a trace, and variables that hold one. Pure.

The conversation itself is not masked: a tool may show the model any file that it may read. But a compaction
copies the output of a tool into every later request. So a chronicle has masks for the known shapes, as a log
has, and besides for each string that only chance can have made. A name or a path is written by people: it has
few digits, and few changes between small letters, capitals and digits. Of the signs of a random key in
base 64, two in three differ in kind from the one before. The hexadecimal digits of a commit or a checksum are
no secret: they have no capitals beside small letters.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

MASK: Final = "[secret]"
"""The text that replaces a secret."""

_KEYS: Final = re.compile(
    r"""
    \b(?:
        sk-[A-Za-z0-9_-]{16,}                       # OpenAI, Anthropic, OpenRouter, DeepSeek
      | (?:xai|gsk|hf|nvapi|pplx|r8|fw|csk|tgp)[-_][A-Za-z0-9_-]{16,}
      | AIza[A-Za-z0-9_-]{30,}                      # Google
      | ya29\.[A-Za-z0-9_-]{20,}
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
      | glpat-[A-Za-z0-9_-]{16,}
      | npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,}
      | xox[abeoprs]-[A-Za-z0-9-]{10,}              # Slack
      | (?:AKIA|ASIA)[A-Z0-9]{16}                   # AWS
      | AGE-SECRET-KEY-1[A-Z0-9]{20,}
      | [rs]k_(?:live|test)_[A-Za-z0-9]{16,}        # Stripe
      | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}  # SendGrid
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}  # a signed web token
    )
    """,
    re.VERBOSE,
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)", re.DOTALL
)
_KEY_LIKE: Final = re.compile(r"[A-Za-z0-9_.-]{15,}")
_BEARER: Final = re.compile(
    r"([bB](?<!\w.)(?:[eE][aA][rR][eE][rR]|[aA][sS][iI][cC]))(\s+)[A-Za-z0-9._~+/=-]{12,}"
)
_URL_PASSWORD: Final = re.compile(r"://([^\s:/@]{0,256}):[^\s/@]{1,256}(?=@)")
"""These begin with the letters that they look for, as a text is searched ten times as fast for letters."""

_ASSIGNED: Final = re.compile(r"""[:=](?=(\s*)("[^"\n]{6,}"|'[^'\n]{6,}'|[^\s"',;()\[\]{}]{8,}))""")
_SECRET_NAMES: Final = (
    *("api[_-]?key", "access[_-]?key", "secret[_-]?key", "private[_-]?key", "client[_-]?secret"),
    *("auth[_-]?token", "access[_-]?token", "refresh[_-]?token", "session[_-]?token", "(?<![a-z])token"),
    *("secret", "password", "passwd", "passphrase", "credential", "credentials"),
)
_SECRET_NAME: Final = re.compile(rf"(?:{'|'.join(_SECRET_NAMES)})[\"']?\s*$", re.IGNORECASE)
_NAME_ENDS: Final = tuple({re.findall("[a-z]+", name)[-1] for name in _SECRET_NAMES})
"""The last words of the names: most assignments have another, and need no search."""

_NAME_CHARS: Final = 40
"""The text before a value that is searched for its name."""


def mask_secrets(text: str) -> str:
    """Return *text* with keys, tokens, passwords and private keys replaced by :data:`MASK`.

    The text around a secret stays, so that a log still names it. Costs about 30 us for a kB.

    >>> mask_secrets("OPENAI_API_KEY=sk-proj-abcdefghijklmnop1234")
    'OPENAI_API_KEY=[secret]'
    >>> mask_secrets("Authorization: Bearer abc.def.ghi-jkl")
    'Authorization: Bearer [secret]'
    """
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    text = _KEY_LIKE.sub(lambda found: _KEYS.sub(MASK, found[0]), text)
    lowered = text.lower()
    if "bearer" in lowered or "basic" in lowered:
        text = _BEARER.sub(lambda found: f"{found[1]}{found[2]}{MASK}", text)
    if "@" in text:
        text = _URL_PASSWORD.sub(lambda found: f"://{found[1]}:{MASK}", text)
    return _mask_assigned(text)


def _mask_assigned(text: str) -> str:
    """Mask the values that are assigned to a secret's name."""
    parts: list[str] = []
    at = 0
    for found in _ASSIGNED.finditer(text):
        sign = found.start()
        name = text[max(at, sign - _NAME_CHARS) : sign] if sign >= at else ""
        if name.rstrip().rstrip("\"'").lower().endswith(_NAME_ENDS) and _SECRET_NAME.search(name):
            parts += [text[at : found.end(1)], MASK]
            at = found.end(2)
    return "".join((*parts, text[at:])) if parts else text


_LEAST_RANDOM: Final = 20
_RUN: Final = re.compile(r"[A-Za-z0-9+_=-]{20,}")


def mask_text(text: str) -> str:
    """Return *text* with its secrets masked, and each string in it that only chance can have made.

    >>> mask_text("KEY_FOR_IT=q7Zt0Lm4XbV9sK2dPw8R, from getParserFactoryForVersion2 at 3f786850e387550fdab8")
    'KEY_FOR_IT=[secret], from getParserFactoryForVersion2 at 3f786850e387550fdab8'
    """
    return _RUN.sub(mask_random, mask_secrets(text))


def mask_random(found: re.Match[str]) -> str:
    """Return the part of *found* that stands before its random value, and the mask; all of it without one."""
    name, equals, value = found[0].rpartition("=") if "=" in found[0].rstrip("=") else ("", "", found[0])
    return f"{name}{equals}{MASK}" if is_random(value) else found[0]


def is_random(value: str) -> bool:
    """Whether only chance can have made *value*: its kinds of signs change as often as in a random string.

    >>> is_random("q7Zt0Lm4XbV9sK2dPw8R"), is_random("getParserFactoryForVersion2")
    (True, False)
    """
    if value.isalpha() or value.islower() or value.isupper():
        return False
    kinds = ["0" if sign.isdigit() else "A" if sign.isupper() else "a" for sign in value]
    n_changes = sum(one != other for one, other in pairwise(kinds))
    n_numbers = sum(other == "0" and one != "0" for one, other in pairwise(["a", *kinds]))
    return (
        len(value) >= _LEAST_RANDOM
        and n_changes >= 0.4 * len(value)
        and n_numbers >= 3
        and 5 * kinds.count("A") >= len(value)
        and 5 * kinds.count("a") >= len(value)
    )


_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""The words in the name of a variable, in any of the usual spellings."""

_SECRET_WORDS: Final = frozenset(
    (
        *("apikey", "auth", "authkey", "authorization", "authtoken", "bearer", "cookie", "cookies", "cred"),
        "credential",
        *("credentials", "creds", "dsn", "jwk", "jwt", "key", "keys", "otp", "pass", "passphrase", "passwd"),
        *("password", "passwords", "pat", "pem", "pw", "pwd", "salt", "sas", "secret", "secrets", "token"),
        *("tokens", "webhook"),
    )
)
_SECRET_END: Final = re.compile(r"(?:(?<!com)(?<!by)pass|password|passwd|passphrase|secret|token|apikey)s?\Z")
"""The end of a word that is written in one, such as ``PGPASSWORD``."""

_WORKING_FOLDERS: Final = frozenset(("PWD", "OLDPWD"))
_NAMES_OF_THINGS: Final = frozenset(
    ("build", "commit", "digest", "guid", "hash", "id", "ref", "revision", "sha", "uuid", "version")
)
"""Words of names whose values are long numbers, and no secrets."""

_OPAQUE: Final = re.compile(r"[A-Za-z0-9]{20,}")
_LEAST_CHANGES: Final = 3
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_URL_USER: Final = re.compile(r"://[^/?#\s]*@")
_PAIR: Final = re.compile(r"(?:\A|;)\s*([A-Za-z][A-Za-z ]{0,40})=([^;=]+=*)(?=;|\Z)")
"""A part of a connection string, such as ``AccountKey=...;``."""
_TOKEN_LIKE: Final = re.compile(r"(?![/.~])[A-Za-z0-9_+/=.~-]+")


def is_secret_variable(name: str, value: str) -> bool:
    """Whether the variable *name* of an environment holds a secret, by the shape of its name or its value.

    A name has a word for a secret. A value is one when it has the form of a known key, is an address with a
    user in it or a connection string with a secret, or has a long part in which letters and digits take
    turns. The path of a file or a socket is no secret under a name such as ``SSH_AUTH_SOCK``. A proxy
    stays as well: without it no command has a network.

    >>> [is_secret_variable(name, "hunter2") for name in ("GH_PAT", "MYSQL_PWD", "PATH", "KEYBOARD")]
    [True, True, False, False]
    >>> is_secret_variable("DATABASE_URL", "postgres://me:hunter2@db/app"), is_secret_variable("PWD", "/a")
    (True, False)
    >>> is_secret_variable("SSHPASS", "x"), is_secret_variable("COMPASS", "n")
    (True, False)
    >>> is_secret_variable("STORAGE", "AccountName=me;AccountKey=abc==;"), is_secret_variable("A", "b=1;c=2;")
    (True, False)
    """
    words = [word.lower() for word in _PART.findall(name)]
    if not value or name in _WORKING_FOLDERS or name.lower().endswith("_proxy"):
        return False
    if not _SECRET_WORDS.isdisjoint(words) or any(map(_SECRET_END.search, words)):
        return "auth" not in words or not value.startswith("/")
    if mask_secrets(value) != value or _URL_USER.search(value) is not None:
        return True
    if any(is_secret_variable(*pair) for pair in _PAIR.findall(value)):
        return True
    may_be_opaque = _URL.match(value) is not None or _TOKEN_LIKE.fullmatch(value) is not None
    return (
        may_be_opaque and _NAMES_OF_THINGS.isdisjoint(words) and any(map(is_opaque, _OPAQUE.findall(value)))
    )


def is_opaque(text: str) -> bool:
    """Whether letters and digits take turns in *text* as they do in a random one.

    >>> is_opaque("9f86d081884c7d659a2feaa0c55ad015"), is_opaque("MacBookProOfSomebody2026")
    (True, False)
    """
    digits = [each.isdigit() for each in text]
    return sum(one != other for one, other in pairwise(digits)) >= _LEAST_CHANGES
