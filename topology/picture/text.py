"""Text within boxes: its width, its form when it is too long, and characters that must not be drawn as they are."""

from __future__ import annotations

import unicodedata

_UNDRAWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of characters that are invisible, change the direction of the text around them, or are illegal in XML."""
_ELLIPSIS = "…"


def drawable(text: str) -> str:
    """Returns ``text`` on one line, with U+FFFD in place of each character that cannot or must not be drawn."""
    return "".join("\ufffd" if unicodedata.category(each) in _UNDRAWN else each for each in text)


def columns(text: str) -> int:
    """Returns the number of columns that ``text`` takes in a font of fixed width: East Asian characters take two."""
    return sum(2 if each != _ELLIPSIS and unicodedata.east_asian_width(each) in "WFA" else 1 for each in text)


def is_regular(text: str) -> bool:
    """Returns True if every font of fixed width draws ``text`` with the same width."""
    return text.replace(_ELLIPSIS, "").isascii()


def shortened(text: str, limit: int) -> str:
    """Returns drawable ``text`` in at most ``limit`` columns; an ellipsis replaces its middle, because names often
    differ at their ends."""
    text = drawable(text)
    if columns(text) <= limit:
        return text
    head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    while columns(head) + columns(tail) + 1 > limit:
        if columns(head) > columns(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}{_ELLIPSIS}{tail}"
