"""What looks like a secret is masked, what surrounds it stays; nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.secrets import MASK, mask_secrets, mask_text

KEY = "abcDEF0123456789_-abcDEF0123456789"


def check(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked


SECRETS = {
    "openai": (f"Incorrect key sk-proj-{KEY}.", f"Incorrect key {MASK}."),
    "anthropic": (f"sk-ant-api03-{KEY}", MASK),
    "google": (f"?key=AIza{KEY}&x=1", f"?key={MASK}&x=1"),
    "github": (f"git+https://ghp_{'a1' * 18}@x", f"git+https://{MASK}@x"),
    "aws": (f"AWS AKIA{'A1' * 8} east", f"AWS {MASK} east"),
    "bearer": ("Authorization: Bearer abc.def-ghi_jkl", f"Authorization: Bearer {MASK}"),
    "password of a url": ("postgres://bob:hunter22@db/x", f"postgres://bob:{MASK}@db/x"),
    "json": ('{"api_key": "abcdefg123"}', f'{{"api_key": {MASK}}}'),
    "dotenv": ("DB_PASSWORD=hunter2hunter2\nA=1", f"DB_PASSWORD={MASK}\nA=1"),
    "private key": (
        f"a -----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY----- b",
        f"a {MASK} b",
    ),
    "private key, cut off": (f"-----BEGIN PRIVATE KEY-----\n{KEY}", MASK),
    "web token": ("eyJhbGciOiJI.eyJzdWIiOiIx.sIgn-ature", MASK),
}


@pytest.mark.parametrize(("text", "masked"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_masked(text: str, masked: str) -> None:
    check(text, masked)


@pytest.mark.parametrize(
    "text",
    [
        "the secret of a good password is its length",
        "max_tokens=100000000",
        "def password(self) -> str: ...",
        "input_tokens: 123456789",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "https://example.org/a:b@c",
        "sk-short",
    ],
)
def test_other_text_stays(text: str) -> None:
    check(text, text)


@pytest.mark.parametrize(
    "text",
    [
        "DEPLOY_ID=[q7Zt0Lm4XbV9sK2dPw8R]",
        "curl -H 'X-Auth: [mF3kQ8zT1vB6nW0xR5yC2jH9]' https://a.example",
        "postgres://app:[hunter2]@db/main",
        "Authorization: Bearer [abcdefghijklmnop]",
        "password = [correct-horse-battery]",
        "[AKIAIOSFODNN7EXAMPLE]",
    ],
)
def test_a_chronicle_masks_a_secret_and_not_its_name(text: str) -> None:
    before, _, rest = text.partition("[")
    secret, _, after = rest.partition("]")
    assert mask_text(f"{before}{secret}{after}") == f"{before}[secret]{after}"


@pytest.mark.parametrize(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "class AbstractSingletonProxyFactoryBeanV2",
        "src/very/long/path/to/some/Module2/TestFile3.spec.ts:42",
        "getParserFactoryForVersion2AndConfig3",
        "THIS_IS_A_CONSTANT_NAME_WITH_42_IN_IT",
        "version 1.22.333-rc4+build5678901234",
    ],
)
def test_names_and_hashes_stay_in_a_chronicle(text: str) -> None:
    assert mask_text(text) == text


@given(st.text(), st.sampled_from([f"sk-{'a' * 20}", f"AIza{'b' * 35}", f"ghp_{'c' * 36}"]))
def test_no_key_survives_between_any_words(around: str, key: str) -> None:
    assert key not in mask_secrets(f"{around} {key} {around}")
