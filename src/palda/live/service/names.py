"""Checks of names and texts that people type."""

from __future__ import annotations

import unicodedata

from palda.live.errors import InvalidRequestError

MAX_NAME = 200
MAX_TEXT = 1_000_000  # characters of a document
_MAX_DECOMPOSED = 4  # times as long as normalised; normalising a million accents in a row takes half an hour


def checked_name(text: str, what: str, max_length: int = MAX_NAME) -> str:
    """A name without blanks around it; control characters and empty names are refused."""
    name = " ".join(checked_text(text, what).split())
    if not name:
        raise InvalidRequestError(f"the {what} is empty")
    if len(name) <= _MAX_DECOMPOSED * max_length:
        name = unicodedata.normalize("NFC", name)
    if len(name) > max_length:
        raise InvalidRequestError(f"the {what} has {len(name):,} characters; at most {max_length} are allowed")
    if any(unicodedata.category(character) in ("Cc", "Cf") for character in name):
        raise InvalidRequestError(f"the {what} has characters that cannot be seen")
    return name


def checked_text(text: str, what: str, max_length: int = MAX_TEXT) -> str:
    """A text that every database can store."""
    if len(text) > max_length:
        raise InvalidRequestError(f"the {what} has {len(text):,} characters; at most {max_length:,} are allowed")
    if "\0" in text:
        raise InvalidRequestError(f"the {what} has a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"the {what} is not valid Unicode") from None
    return text
