"""The work of a problem on a device, and the lower bound of its time (the roofline model).

Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .devices import Architecture, architecture, architecture_name


class Ceilings(BaseModel):
    """The measured peak rates of a device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    copy_gb_s: float = Field(gt=0)
    """Copy bandwidth: bytes read plus bytes written per second, in 1e9."""
    matrix_gflop_s: float = Field(gt=0)
    """Rate of a large fp32 matrix product in 1e9 operations per second.

    On a GPU it is the larger of the vector units' rate
    and a third of the TF32 rate."""
    vector_gflop_s: float | None = Field(default=None, gt=0)
    """The same on the vector units only, without tensor cores; None for a CPU, and in older records."""
    tf32_gflop_s: float | None = Field(default=None, gt=0)
    """The same in TF32; None for a CPU, and in older records."""
    half_gflop_s: float | None = Field(default=None, gt=0)
    """The same in fp16; None for a CPU."""
    bfloat16_gflop_s: float | None = Field(default=None, gt=0)
    """The same in bf16; None for a CPU, and in older records."""
    float8_gflop_s: float | None = Field(default=None, gt=0)
    """The same in fp8; None if the device does not support it, and in older records."""
    l2_gb_s: float | None = Field(default=None, gt=0)
    """Read bandwidth of the L2 cache in 1e9 bytes per second; None for a CPU, and in older records."""
    launch_us: float | None = Field(default=None, gt=0)
    """Cost of each further launch in a call, in microseconds; None for a CPU, and in older records."""
    latency_ns: float | None = Field(default=None, gt=0)
    """Latency of a load from device memory in nanoseconds; None for a CPU, without Triton, and in older records."""
    cores: int = Field(gt=0)
    """Processor cores, or multiprocessors of a GPU."""


class DeviceLimits(BaseModel):
    """A GPU's limits for a block of threads, and its multiprocessors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    architecture: str
    """The name of its architecture: 'sm_90' is Hopper, 'gfx942' CDNA 3. Older records have a compute capability."""
    multiprocessors: int = Field(gt=0)
    shared_bytes: int = Field(gt=0)
    """Maximum shared memory of a block in bytes."""
    registers: int = Field(gt=0)
    """Number of 32-bit registers of a multiprocessor."""
    threads: int = Field(gt=0)
    """Maximum number of resident threads of a multiprocessor."""
    l2_bytes: int | None = Field(default=None, gt=0)
    """Size of the L2 cache in bytes; None in older records."""
    clock_mhz: float | None = Field(default=None, gt=0)
    """Maximum clock of the multiprocessors; None in older records."""

    @model_validator(mode="before")
    @classmethod
    def _of_capability(cls, record: Any) -> Any:
        if not isinstance(record, dict) or "capability" not in record:
            return record
        others = {name: value for name, value in record.items() if name != "capability"}
        return {"architecture": f"sm_{record['capability']}", **others}

    @classmethod
    def of_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Return the limits of a GPU with these properties of torch's; raises `DeviceError` for one of no known kind.

        Torch has no registers of AMD's GPUs: they are the architecture's.
        """
        name = architecture_name(properties)
        clock = properties.get("clock_rate")
        return cls(
            architecture=name,
            multiprocessors=properties["multi_processor_count"],
            shared_bytes=properties.get("shared_memory_per_block_optin") or properties["shared_memory_per_block"],
            registers=architecture(name).registers,
            threads=properties["max_threads_per_multi_processor"],
            l2_bytes=properties.get("L2_cache_size") or None,
            clock_mhz=clock / 1e3 if clock else None,
        )

    @property
    def described(self) -> Architecture:
        """The described architecture. Raises `DeviceError` if there is none."""
        return architecture(self.architecture)

    @property
    def exp_g_s(self) -> float | None:
        """Exponentials per second in 1e9. None without the clock, or where the architecture's rate is not known."""
        rate = self.described.special_functions
        return None if self.clock_mhz is None or rate is None else rate * self.multiprocessors * self.clock_mhz / 1e3


class MatrixProduct(BaseModel):
    """The largest matrix product of a problem: (m x k) times (k x n), `batch` of them.

    A convolution is a product with m output positions, n output channels, k taps times input channels, and a batch per
    group.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    m: int = Field(gt=0)
    n: int = Field(gt=0)
    k: int = Field(gt=0)
    batch: int = Field(default=1, gt=0)
    element_bytes: int | float = Field(gt=0)
    """Size of an operand's element: half a byte for NVFP4."""
    dtype: str = ""
    """Dtype or format of the operands, such as 'bfloat16' or 'float8_e4m3fn', the wider one if they differ.

    It is the dtype before the
    reference widened them. Empty in older records."""
    sums: int = Field(default=1, gt=0)
    """Number of fp32 accumulators per result: 2 if the sum of each step is added to another accumulator."""
    scaled: bool = False
    """Whether the sum of each step is scaled as it is added."""
    side_by_side: int = Field(default=1, gt=0)
    """Number of such products that a kernel computes at once from one left operand: 2 for a gated layer."""
    part: int = Field(default=0, ge=0)
    """Columns of a tile that are multiplied at once and share the sum of a step; 0 for all."""
    taps: int = Field(default=1, gt=0)
    """Number of equal parts of k that a kernel sums successively: the taps of a convolution's filter."""
    turned: bool = False
    """Whether the rows of a kernel's tiles are the columns of the product: it multiplies weights by positions."""


class Profile(BaseModel):
    """Counted work of the reference, and peak rates of the device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flops: float = Field(ge=0)
    matrix_flops: float = Field(ge=0)
    """The part of `flops` in matrix products and convolutions."""
    min_bytes: float = Field(gt=0)
    """Bytes to read inputs and weights once, and to write outputs once."""
    eager_bytes: float = Field(gt=0)
    """Bytes that the reference's operators read and write one by one."""
    operators: tuple[str, ...] = ()
    """The reference's operators in the order they ran."""
    product: MatrixProduct | None = None
    ceilings: Ceilings
    limits: DeviceLimits | None = None
    """None for a CPU."""
    device: str

    @property
    def memory_floor_ms(self) -> float:
        """Lower bound in milliseconds by memory traffic."""
        return self.min_bytes / self.ceilings.copy_gb_s / 1e6

    @property
    def compute_floor_ms(self) -> float:
        """Lower bound in milliseconds by matrix products."""
        return self.matrix_flops / self.matrix_gflop_s / 1e6

    @property
    def matrix_gflop_s(self) -> float:
        """Peak rate of the problem's matrix products, for the dtype of the operands.

        An fp32 product may be three products of bf16 or TF32 parts, which are nearly as accurate.
        """
        ceilings, dtype = self.ceilings, self._product_dtype
        half = ceilings.half_gflop_s or ceilings.matrix_gflop_s
        if dtype.startswith("float8"):
            return ceilings.float8_gflop_s or half
        if dtype == "bfloat16":
            return ceilings.bfloat16_gflop_s or half
        if dtype == "float16":
            return half
        # Without a matrix product the work is a convolution's, which has no dtype in older records.
        split = (ceilings.bfloat16_gflop_s or 0.0) / 3 if dtype in ("float32", "") else 0.0
        return max(ceilings.matrix_gflop_s, split)

    @property
    def product_precision(self) -> str:
        """Describe these products: 'fp32 products', 'bf16 products', 'fp32 products as three of bf16'."""
        ceilings, dtype = self.ceilings, self._product_dtype
        for start, name in (("float8", "fp8"), ("bfloat16", "bf16"), ("float16", "fp16")):
            if dtype.startswith(start):
                return f"{name} products"
        if dtype not in ("float32", ""):
            return f"{dtype} products"
        parts = {"TF32": ceilings.tf32_gflop_s or 0.0, "bf16": ceilings.bfloat16_gflop_s or 0.0}
        name = max(parts, key=lambda part: parts[part])
        # Older records do not tell how their fp32 rate was measured.
        return (
            f"fp32 products as three of {name}" if parts[name] / 3 >= self.matrix_gflop_s * 0.999 else "fp32 products"
        )

    @property
    def _product_dtype(self) -> str:
        """Operand dtype of the largest product; empty if there is no product, and in older records."""
        product = self.product
        return (product.dtype or {2.0: "float16"}.get(product.element_bytes, "")) if product else ""

    @property
    def floor_ms(self) -> float:
        """Lower bound of the time in milliseconds. No implementation runs much faster."""
        return max(self.memory_floor_ms, self.compute_floor_ms)

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations per byte of minimum traffic."""
        return self.flops / self.min_bytes
