"""What the built-in kernel languages promise: the published suite, on a CPU."""

from __future__ import annotations

import pytest
from kernelwright.core import Language
from kernelwright.core.languages import TILELANG, TRITON
from kernelwright.testing import SCALE_KERNEL, LanguageSuite

from ..triton_scale import TRITON_KERNEL

LAUNCH = "scale[(triton.cdiv(x.numel(), BLOCK),)](x, self.weight, y, x.shape[1], x.numel(), BLOCK=BLOCK)"


def changed(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new)


class TestTileLang(LanguageSuite):
    @pytest.fixture
    def language(self) -> Language:
        return TILELANG

    @pytest.fixture
    def right(self) -> str:
        return SCALE_KERNEL

    @pytest.fixture
    def idle(self) -> str:
        return changed(SCALE_KERNEL, "return build(*x.shape)(x, self.weight)", "return x * self.weight")

    @pytest.fixture
    def broken(self) -> str:
        return changed(SCALE_KERNEL, "* W[j]", "* nothing[j]")


class TestTriton(LanguageSuite):
    @pytest.fixture
    def language(self) -> Language:
        return TRITON

    @pytest.fixture
    def right(self) -> str:
        return TRITON_KERNEL

    @pytest.fixture
    def idle(self) -> str:
        return changed(TRITON_KERNEL, LAUNCH, "y.copy_(x).mul_(self.weight)")

    @pytest.fixture
    def broken(self) -> str:
        return changed(TRITON_KERNEL, "tl.load(x + offsets, mask)", "tl.load(x + nothing, mask)")
