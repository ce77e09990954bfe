"""Programs at random, of what generated C consists of: many accesses of them are outside of their arrays."""

from __future__ import annotations

import random

FUEL = "f = f + 1; if (f > 3000) { return 0; } "
"""Begins each round of a loop: no program runs for ever."""
START = "int32_t p = 0; int32_t q = n; int32_t r = 5; int32_t s = 1; int32_t f = 0; float a[6];"


class Writer:
    """Writes expressions and statements over X, I, Y, n, an array `a` and the variables p to s."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def program(self) -> str:
        """Return the statements of a function."""
        body = " ".join(self._statement(3) for _ in range(2))
        return f"{START} for (int32_t o = 0; o < 2; ++o) {{ {FUEL}{body} }} return f;"

    def _index(self, depth: int = 2) -> str:
        chosen = self._random.randrange(14) if depth else self._random.randrange(6)
        if chosen < 4:
            return self._random.choice("pqrsn")
        if chosen < 6:
            return self._random.choice(["I[(p & 7)]", *map(str, range(-1, 9))])
        text, number = self._index(depth - 1), self._random.randint(1, 7)
        if chosen < 9:
            return f"({text} {self._random.choice('+-*')} {self._index(depth - 1)})"
        if chosen == 9:
            return f"(({self._random.choice(['int64_t', 'uint32_t', 'int8_t'])}){text})"
        if chosen < 12:
            return f"({text} {self._random.choice(['>>', '/', '&', '%'])} {number})"
        name = self._random.choice("pqrs")  # what is a number in one place may be another in the next
        return f"(({name} > 1) ? {text} : 1)" if chosen == 12 else f"({text} >> ({name} & 3))"

    def _guard(self) -> str:
        text = f"({self._index()} {self._random.choice(['<', '<=', '>', '>=', '==', '!='])} {self._index()})"
        chosen = self._random.randrange(5)
        return text if chosen < 3 else f"({text} {'&&' if chosen == 3 else '||'} {self._guard()})"

    def _simple(self) -> str:
        name = self._random.choice("pqrs")
        return self._random.choice([
            f"Y[{self._index()}] = X[{self._index()}];",
            f"a[{self._index()}] = a[{self._index()}] + 1.0f;",
            f"*(float2*)(Y + {self._index()}) = ((float2)(X[{self._index()}], X[0]));",
            f"I[{self._index()}] = {self._index()};",
            f"{name} = {self._index()};",
            f"{name} += {self._random.randint(1, 3)};",
            f"{{ int32_t {name} = {self._index()}; Y[{name}] = 1.0f; {name} = 3; }}",
            self._recalled(name),
            f"if (n == 3) {{ {self._random.choice(['break;', 'continue;', 'return 0;'])} }}",
        ])  # fmt: skip

    def _recalled(self, name: str) -> str:
        """What held of an expression before one of its variables got another number."""
        first, second = self._index(), self._random.choice("pqrsn")
        before, after = self._random.randint(0, 3), self._random.randint(0, 3)
        held = f"({first} + {second}) < {self._random.randint(2, 9)}"
        return f"{name} = {before}; if ({held}) {{ {name} = {after}; Y[({first} + {second})] = 1.0f; }}"

    def _block(self, depth: int) -> str:
        return " ".join(self._statement(depth - 1) for _ in range(self._random.randint(1, 2)))

    def _statement(self, depth: int) -> str:
        chosen, name = self._random.randrange(12), self._random.choice("pqrs")
        if not depth or chosen < 3:
            return self._simple()
        body = self._block(depth)
        if chosen < 6:
            return f"if ({self._guard()}) {{ {body} }} else {{ {self._block(depth)} }}"
        if chosen == 6:
            return f"if ({self._guard()}) {{ {body} {self._random.choice(['break;', 'continue;'])} }} {self._simple()}"
        if chosen == 7:
            return f"while ({self._guard()}) {{ {FUEL}{body} }}"
        if chosen == 8:
            return f"do {{ {FUEL}{body} }} while ({self._guard()});"
        if chosen < 10:  # as TileLang writes most loops, over accesses that can be proven
            guarded = (
                f"if (({name} + {self._index(1)}) < {self._random.randint(2, 9)}) {{ Y[({name} + 2)] = a[{name}]; }}"
            )
            body = f"{FUEL}{self._simple()} a[{name}] = 1.0f; {guarded}"
            return f"for (int32_t {name} = 0; {name} < 6; ++{name}) {{ {body} }}"
        step, high = self._random.randint(1, 3), self._random.choice([self._index(), "8", "6", "n"])
        low = self._random.choice([self._index(1), "0", "0", "1"])
        return f"for (int32_t {name} = {low}; {name} < {high}; {name} += {step}) {{ {FUEL}{body} }}"
