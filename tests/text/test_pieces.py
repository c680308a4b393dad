"""Texts in pieces: nothing is lost, and no group is larger than its room but for a single piece."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.pieces import group_pieces, split_bytes


@given(st.lists(st.text("ab", max_size=9), max_size=12), st.integers(1, 12))
def test_groups_hold_all_pieces_in_order_and_are_filled(pieces: list[str], room: int) -> None:
    groups = list(group_pieces(pieces, room, len))
    assert [piece for group in groups for piece in group] == pieces
    for group, following in zip(groups, [*groups[1:], None], strict=False):
        size = sum(map(len, group))
        assert size <= room or len(group) == 1
        assert following is None or size + len(following[0]) > room


@given(st.text(max_size=40), st.integers(1, 12))
def test_a_text_is_divided_between_characters(text: str, n_bytes: int) -> None:
    parts = list(split_bytes(text, n_bytes))
    assert "".join(parts) == text.encode("utf-8", "replace").decode()
    assert all(parts)
    assert all(len(part.encode()) <= max(n_bytes, 4) for part in parts)
