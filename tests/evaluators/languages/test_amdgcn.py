"""What AMD's assembly says of a kernel."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.languages.amdgcn import matrix_instructions, read_assembly

# As LLVM writes it for gfx942; the metadata states sums of vector and accumulation registers.
METADATA = """
	.amdhsa_next_free_vgpr 280
	v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[6:7], a[0:3]
amdhsa.kernels:
  - .agpr_count:     128
    .private_segment_fixed_size: 12
    .sgpr_count:     29
    .vgpr_count:     280
    .vgpr_spill_count: 3
"""


def test_registers_and_scratch_are_those_of_the_metadata() -> None:
    assert read_assembly(METADATA) == (280, 12)


def test_assembly_without_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="assembly without vgpr_count"):
        read_assembly("s_endpgm")


@pytest.mark.parametrize(
    ("instruction", "told"),
    [
        ("v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], v[0:3]", "mfma f16"),  # gfx90a
        ("v_mfma_f32_32x32x8bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]", "mfma bf16"),
        ("v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]", "mfma f16"),  # gfx950
        ("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "mfma f16"),
        ("v_mfma_f32_16x16x32_fp8_bf8 v[0:3], v[4:5], v[6:7], v[0:3]", "mfma fp8"),
        ("v_mfma_f32_16x16x8_xf32 v[0:3], v[4:5], v[6:7], v[0:3]", "mfma xf32"),
        ("v_mfma_i32_16x16x32_i8 v[0:3], v[4:5], v[6:7], v[0:3]", "mfma i8"),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3], v20, v21", "mfma f8f6f4"),
        ("v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[12:15], v[0:7]", "wmma bf16"),
        ("v_wmma_f32_16x16x16_fp8_fp8 v[0:7], v[8:9], v[10:11], v[0:7]", "wmma fp8"),
    ],
)
def test_matrix_instructions_with_the_type_of_their_operands(instruction: str, told: str) -> None:
    assert matrix_instructions(f"\ts_waitcnt lgkmcnt(0)\n\t{instruction}\n") == (told,)


def test_other_instructions_are_none() -> None:
    assert (
        matrix_instructions("v_fma_f32 v0, v1, v2, v0\nv_accvgpr_write_b32 a0, v1\nv_dot2_f32_f16 v0, v1, v2, v0") == ()
    )
