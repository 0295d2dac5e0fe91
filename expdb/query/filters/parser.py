"""Tokens to a tree.

    filter = both {"or" both}          both = one {"and" one}
    one    = "not" one | "(" filter ")" | test
    test   = name ("=" | "!=" | "<" | "<=" | ">" | ">=" | "~") value
           | name ["not"] "in" "(" value {"," value} ")"
           | name "is" ["not"] ("nan" | "missing")

Words of the grammar are read in lower and upper case; a name or value that is one of them stands in
quotes.
"""

from __future__ import annotations

from typing import Final, cast

from expdb import text
from expdb.errors import BadInput
from expdb.query.filters.errors import wrong
from expdb.query.filters.nodes import All, AnyOf, Name, Node, Not, Op, Test, Value
from expdb.query.filters.tokens import Kind, Token, tokens

KEYWORDS: Final = frozenset(["and", "or", "not", "in", "is"])
MAX_DEPTH: Final = 50
MAX_TESTS: Final = 100
MAX_VALUES: Final = 10_000


def parse(source: str) -> Node:
    """Return the tree of a filter.

    Raises:
        BadInput: it does not follow the grammar; the error shows where.
    """
    parser = _Parser(source)
    found = parser.either(0)
    parser.expect_end()
    return found


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokens(source)
        self.at = 0
        self.num_tests = 0

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.here
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def is_kind(self, kind: Kind) -> bool:
        return self.here.kind == kind

    def is_word(self, word: str) -> bool:
        return self.here.kind == "word" and self.here.text.lower() == word

    def accept(self, word: str) -> bool:
        if not self.is_word(word):
            return False
        self.take()
        return True

    def wrong(self, message: str, *, token: Token | None = None, hint: str = "") -> BadInput:
        token = token or self.here
        return wrong(self.source, token.at, token.end, message, hint=hint)

    def either(self, depth: int) -> Node:
        nodes = [self.both(depth)]
        while self.accept("or"):
            nodes.append(self.both(depth))
        return nodes[0] if len(nodes) == 1 else AnyOf(tuple(nodes))

    def both(self, depth: int) -> Node:
        nodes = [self.one(depth)]
        while self.accept("and"):
            nodes.append(self.one(depth))
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def one(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.wrong(f"brackets and `not` are nested more than {MAX_DEPTH} deep")
        if self.accept("not"):
            return Not(self.one(depth + 1))
        if not self.is_kind("("):
            return self.test()
        opened = self.take()
        found = self.either(depth + 1)
        if not self.is_kind(")"):
            raise self.wrong("this bracket is not closed", token=opened)
        self.take()
        return found

    def test(self) -> Node:
        name = self.name()
        self.num_tests += 1
        if self.num_tests > MAX_TESTS:
            raise self.wrong(f"more than {MAX_TESTS} tests", hint="several values: name in (a, b)")
        if self.is_kind("op"):
            op = self.take().text
            values = (self.value(op),)
            if op == "!=":
                return Not(Test(name=name, op="=", values=values))
            return Test(name=name, op=cast("Op", op), values=values)
        if self.accept("is"):
            return self.what(name)
        negated = self.accept("not")
        if not self.accept("in"):
            shown = text.plain(name.text)
            raise self.wrong(
                f"after {shown} stands no comparison",
                hint="one of: =  !=  <  <=  >  >=  ~  in (a, b)  is nan  is missing",
            )
        found = Test(name=name, op="=", values=self.several())
        return Not(found) if negated else found

    def name(self) -> Name:
        token = self.here
        is_name = token.kind == "quoted" or (
            token.kind == "word" and token.text.lower() not in KEYWORDS
        )
        if not is_name:
            raise self.wrong(
                "a name is missing here" if token.kind == "end" else "a name is expected here",
                hint="an example: optim.lr >= 1e-3 and state = finished",
            )
        self.take()
        return Name(
            text=token.text,
            quoted=token.kind == "quoted",
            reading=token.reading,
            at=token.at,
            end=token.end,
        )

    def what(self, name: Name) -> Node:
        negated = self.accept("not")
        ops: tuple[Op, ...] = ("nan", "missing")
        for op in ops:
            if self.accept(op):
                found = Test(name=name, op=op)
                return Not(found) if negated else found
        hint = f"null is a value: {text.plain(name.text)} = null" if self.is_word("null") else ""
        raise self.wrong("`is` is followed by nan or missing", hint=hint)

    def several(self) -> tuple[Value, ...]:
        if not self.is_kind("("):
            raise self.wrong("`in` is followed by values in brackets", hint="state in (running)")
        opened = self.take()
        values = [self.value("in (")]
        while self.is_kind(","):
            self.take()
            values.append(self.value(","))
        if not self.is_kind(")"):
            raise self.wrong("these values are not closed with )", token=opened)
        self.take()
        if len(values) > MAX_VALUES:
            raise self.wrong(f"more than {MAX_VALUES:,} values", token=opened)
        return tuple(values)

    def value(self, after: str) -> Value:
        token = self.here
        is_value = token.kind == "quoted" or (
            token.kind == "word" and token.text.lower() not in KEYWORDS
        )
        if not is_value:
            raise self.wrong(f"a value is missing after {after}")
        if token.reading:
            raise self.wrong("values have no reading: only a metric has one")
        self.take()
        return Value(text=token.text, quoted=token.kind == "quoted", at=token.at, end=token.end)

    def expect_end(self) -> None:
        if not self.is_kind("end"):
            hint = "a text with spaces stands in quotes" if not self.is_kind(")") else ""
            raise self.wrong("the filter should end here, or go on with and, or", hint=hint)
