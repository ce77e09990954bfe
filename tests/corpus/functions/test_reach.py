"""Which modules a function leads to, as far as their texts tell."""

from __future__ import annotations

from pathlib import Path

from kernelwright.corpus.functions.modules import Place, UserModules
from kernelwright.corpus.functions.reach import MOST_LINES, reach

KERNEL = "@triton.jit\ndef kernel(x):\n    pass\n"


def package(folder: Path, **texts: str) -> Path:
    (folder / "pkg").mkdir()
    for name, text in {"__init__": "", **texts}.items():
        (folder / "pkg" / f"{name}.py").write_text(text)
    return folder / "pkg" / "ops.py"


def reached(path: Path) -> list[str]:
    place = Place(path)
    modules = UserModules(place.tops)
    start = modules.get(place.module)
    assert start is not None
    return [module.name for module in reach(modules, start, "run").modules]


def test_a_long_chain_of_definitions_is_followed_the_nearest_first(tmp_path: Path) -> None:
    chain = "".join(f"def log{number}():\n    return log{number + 1}()\n\n" for number in range(5000))
    ops = "from .log import log0\nfrom .kernels import kernel\n\n\ndef run(x):\n    log0()\n    kernel[1](x)\n"
    path = package(tmp_path, ops=ops, log=chain, kernels=f"import triton\n\n\n{KERNEL}")
    assert reached(path) == ["pkg.kernels", "pkg.ops"]


def test_kernels_that_are_further_away_stay_as_they_are(tmp_path: Path) -> None:
    ops = "from .near import kernel\nfrom .far import far\n\n\ndef run(x):\n    kernel[1](x)\n    far(x)\n"
    far = "from .near import kernel\nfrom .huge import other\n\n\ndef far(x):\n    other[1](x)\n"
    huge = KERNEL.replace("kernel", "other") + "pass\n" * MOST_LINES
    path = package(tmp_path, ops=ops, far=far, near=KERNEL, huge=huge)
    assert reached(path) == ["pkg.near", "pkg.ops"]
