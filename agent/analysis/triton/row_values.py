"""Tells which values of a function are elements of a row, their sum, their mean, or squares of their deviations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .affine import Affine, Index, Stride
from .values import Part, Values

SUM, SQUARES = "sum", "squares"
ONE = Stride(1, ())


@dataclass(frozen=True)
class Row:
    """Elements at `start + index`: indices with a stride of 1, from 0 up to the length."""

    run: frozenset[Index]
    length: Stride
    start: Mapping[Index, Stride]

    @classmethod
    def of(cls, affine: Affine, offset: int, run: frozenset[Index], length: Stride | None) -> Row | None:
        """Return the row that elements at an offset belong to; None where it does not start at whole lengths."""
        strides = affine.strides(offset)
        if strides is None or length is None or not all(strides.get(item) == ONE for item in run):
            return None
        start = {index: one for index, one in strides.items() if index not in run}
        return cls(run, length, start) if all(item.is_multiple_of(length) for item in start.values()) else None


@dataclass
class RowValues:
    """Classifies the numbered values of one function that reads rows from a parameter."""

    values: Values
    affine: Affine
    parameter: str
    sums: set[int] = field(default_factory=set)
    """Values that are the sum of a row."""

    def offset(self, load: int) -> int | None:
        """Return where a load reads the parameter; None for another value."""
        kind, *rest = self.values.key(load)
        if kind != "load" or not isinstance(rest[1], Part):
            return None
        address = self.values.split_address(rest[1], [self.parameter])
        return None if address is None else address[1]

    def summed(self, number: int, row: Row) -> str | None:
        """Return what a value's sum over the row is: SUM, SQUARES, or None for anything else."""
        number, is_masked = self._unmasked(number, row)
        if self._is_element(number, row, zeros=not is_masked):
            return SUM
        kind, *rest = self.values.key(number)
        if kind != "*" or len(rest) != 2 or rest[0] != rest[1] or not isinstance(rest[0], Part):
            return None
        deviation, is_masked_inside = self._unmasked(rest[0], row)
        kind, *rest = self.values.key(deviation)
        if kind != "-" or not isinstance(rest[0], Part) or not isinstance(rest[1], Part):
            return None
        # Beyond the row an element is 0, whose deviation is not.
        element, is_masked = self._unmasked(rest[0], row)[0], is_masked or is_masked_inside
        is_right = self._is_element(element, row, zeros=False, everywhere=not is_masked)
        return SQUARES if is_right and self._is_mean(rest[1], row) else None

    def is_within(self, mask: int, row: Row) -> bool:
        """Return whether a mask says that an element is of the row, and no more."""
        for condition in self.affine.conditions(mask):
            sides = self.affine.less(condition)
            strides = self.affine.strides(sides[0]) if sides else None
            if sides is None or strides is None or self.affine.size(sides[1]) != row.length:
                return False
            if dict(strides) != dict.fromkeys(row.run, ONE):
                return False
        return True

    def mask(self, load: int) -> tuple[int | None, int | None]:
        """Return the mask of a load, None where it has none, and what it reads outside of it."""
        mask, other = self.values.key(load)[3:5]
        has_mask = isinstance(mask, Part) and self.values.key(mask)[0] != "constant"
        return (int(str(mask)) if has_mask else None), (int(other) if isinstance(other, Part) else None)

    def _unmasked(self, number: int, row: Row) -> tuple[int, bool]:
        """Return a value without shape, type and `tl.where(mask, value, 0.0)`, and whether it had that."""
        number = self.affine.plain(number)
        call = self.affine.call(number)
        if call is None or call[0] != self.values.of("tl.where") or len(call[1]) != 3:
            return number, False
        mask, value, other = call[1]
        if not self._is_zero(other) or not self.is_within(mask, row):
            return number, False
        return self.affine.plain(value), True

    def _is_zero(self, number: int | None) -> bool:
        return number is not None and self.values.key(number)[:2] in (("constant", 0), ("constant", 0.0))

    def _is_element(self, number: int, row: Row, zeros: bool, everywhere: bool = False) -> bool:
        """Return whether a value is the row's element: with `zeros`, 0 beyond its end; or without an end in sight."""
        offset = self.offset(number)
        if offset is None:
            return False
        mask, other = self.mask(number)
        if mask is not None and (everywhere or not self.is_within(mask, row) or (zeros and not self._is_zero(other))):
            return False
        strides = self.affine.strides(offset)
        return strides is not None and dict(strides) == {**row.start, **dict.fromkeys(row.run, ONE)}

    def _is_mean(self, number: int, row: Row) -> bool:
        match self.values.key(self.affine.plain(number)):
            case ("/", int(above), int(below)):
                return self.affine.plain(above) in self.sums and self._size(below) == row.length
        return False

    def _size(self, number: int) -> Stride | None:
        """Return a size, through `tl.full(shape, size, type)` and as a float too."""
        number = self.affine.plain(number)
        call = self.affine.call(number)
        if call is not None and call[0] == self.values.of("tl.full") and len(call[1]) == 3:
            number = call[1][1]
        key = self.values.key(number)
        whole = key[0] == "constant" and isinstance(key[1], float) and key[1].is_integer()
        return Stride(int(float(str(key[1]))), ()) if whole else self.affine.size(number)
