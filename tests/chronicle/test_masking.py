"""What a chronicle masks, by shape and by chance."""

from __future__ import annotations

import pytest

from sidecar.chronicle.masking import mask_text


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
def test_a_secret_is_masked_and_what_names_it_stays(text: str) -> None:
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
def test_names_and_hashes_are_no_secrets(text: str) -> None:
    assert mask_text(text) == text
