"""tune_gemm's files: what is written is its input, and its own results are read."""

from __future__ import annotations

from pathlib import Path

import yaml
from kernelwright.tuners.gemm.fields import from_fields
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.sizes import read_sizes
from kernelwright.tuners.gemm.stores import store_of
from kernelwright.tuners.gemm.stores.store import ConfigEntry

from .test_stores import VERSIONS, config, subject


def test_tune_gemms_file_is_valid_input(tmp_path: Path) -> None:
    store, target = store_of("tune-gemm"), tmp_path / "out.yaml"
    about = subject("gemm", "float16")
    store.save(target, about, [ConfigEntry(Shape(64, 128, 16, "TT"), config(1, SPLIT_K=2), 0.5)], VERSIONS)
    store.save(
        target,
        about,
        [ConfigEntry(Shape(64, 128, 16, "TN"), config(2)), ConfigEntry(Shape(64, 128, 32), config(4))],
        {},
    )
    sizes = read_sizes(target)
    assert sizes.configs == {
        Shape(64, 128, 16, "TT"): config(1, SPLIT_K=2),
        Shape(64, 128, 16, "TN"): config(2),
        Shape(64, 128, 32, "TN"): config(4),
    }
    first = target.read_text().splitlines()[0]
    assert first.endswith("# TFLOPS: 0.00 time(us): 500.00")
    assert yaml.safe_load(first)[0]["rowMajorB"] == "T"
    found = store.find(target, about, Shape(64, 128, 32))
    assert found is not None and from_fields(found[0]) == config(4)


def test_older_results_of_tune_gemm_are_sizes_configs_and_neighbours(tmp_path: Path) -> None:
    target = tmp_path / "tuned.yaml"
    line = (
        "- {'M': 16, 'N': 4096, 'K': 1024, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': 16, 'BLOCK_SIZE_N': 64, "
        "'BLOCK_SIZE_K': 128, 'GROUP_SIZE_M': 1, 'SPLIT_K': 5, 'num_warps': 8, 'num_stages': 0, 'waves_per_eu': 2, "
        "'matrix_instr_nonkdim': 16, 'kpack': 2, 'schedule_hint': 'none'} # TFLOPS: 27.52 time(us): 4.88"
    )
    target.write_text(f"{line}\n")
    sizes = read_sizes(target)
    assert not sizes.refused
    assert sizes.configs[Shape(4096, 1024, 16)]["NUM_STAGES"] == 1
    store_of("tune-gemm").save(target, subject("gemm", "float16"), [ConfigEntry(Shape(64, 64, 16), config(1), 0.1)], {})
    assert target.read_text().splitlines()[0] == line
