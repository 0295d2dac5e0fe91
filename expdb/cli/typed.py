"""A command line that is being typed in bash: its words, and the one at the cursor.

Readline replaces only a part of a word: what stands behind its last break character (of
COMP_WORDBREAKS, with `:` and `=` and `@`) or behind an opening quote.

Invariant: nothing is expanded; what the shell would expand is taken as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

UNSAFE = re.compile(r"[^\w\-./:=@+,%]")
"""Characters that may mean something to bash inside a word."""
IN_DOUBLE_QUOTES = frozenset('"$`\\')


@dataclass(frozen=True, slots=True)
class Typed:
    """The words up to the cursor."""

    before: Sequence[str]
    """The whole words behind the command, without their quotes."""
    text: str
    """The word at the cursor, without its quotes; it may be empty."""
    replaced_from: int
    """From which character of `text` on the shell replaces it."""
    quote: str
    """The quote that is open at the cursor; empty for none."""

    def rest_of(self, value: str) -> str | None:
        """Return what is inserted to complete `text` to `value`, quoted as it is needed there.

        None where it cannot be said safely: history expansion works in double quotes.
        """
        rest = value[self.replaced_from :]
        if self.quote == "'":
            return rest.replace("'", "'\\''")
        if self.quote == '"':
            escaped = "".join(f"\\{one}" if one in IN_DOUBLE_QUOTES else one for one in rest)
            return None if "!" in rest else escaped
        return UNSAFE.sub(r"\\\g<0>", rest)


def typed(line: str, *, breaks: str) -> Typed:
    """Split a line up to the cursor as bash does."""
    words: list[str] = []
    text, quote, start, is_word = "", "", 0, False
    chars = iter(line)
    for one in chars:
        if quote:
            if one == quote:
                quote, start = "", len(text)
            elif one == "\\" and quote == '"':
                other = next(chars, "")
                text += other if other in IN_DOUBLE_QUOTES else one + other
            else:
                text += one
        elif one in " \t\n":
            words += [text] if is_word else []
            text, start, is_word = "", 0, False
            continue
        elif one in "'\"":
            quote, start = one, len(text)
        elif one == "\\":
            text += next(chars, "")
        else:
            text += one
            start = len(text) if one in breaks else start
        is_word = True
    return Typed(before=words[1:], text=text, replaced_from=start, quote=quote)
