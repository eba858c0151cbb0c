"""Text for people to read: characters that nobody sees, or that change how others are shown, become escapes."""

from __future__ import annotations

import re

# Fillers and blanks that Unicode counts as letters, symbols or marks, although they show nothing.
_BLANK = "\u034f\u115f\u1160\u2800\u3164\uffa0"
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_JOINERS = re.compile("(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])")
"""Joiners inside words of Persian or Indic scripts and inside emoji, where they belong."""

_SUSPECT = re.compile(f"[^ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u0391-\u03a1{_SPACES}]")
"""Characters outside of the most frequent visible ones; each is looked up."""


def visible(text: str, keep: str = "") -> str:
    r"""The text with control, format and other invisible characters as escapes such as ``\u202e``.

    Among them are the characters that reverse the direction of writing, escape sequences of terminals, zero-width
    spaces and line breaks. Characters in ``keep`` stay, and so do joiners where a script or an emoji needs them.
    """
    if not _SUSPECT.search(text):
        return text
    joiners = {match.start() for match in _JOINERS.finditer(text)}

    def shown(match: re.Match[str]) -> str:
        letter = match[0]
        if letter in keep or match.start() in joiners or (letter.isprintable() and letter not in _BLANK):
            return letter
        return letter.encode("unicode_escape").decode("ascii")

    return _SUSPECT.sub(shown, text)
