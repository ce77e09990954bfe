"""TileLang's kernels for a CPU: from their lowered IR C is generated here, which is then held (`generated_c`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ....core.launch_plan import KernelCode
from ..values import UnplannableCallError


def generated_c(codes: Mapping[str, KernelCode]) -> dict[str, KernelCode]:
    """Return kernels for a CPU as C, by the digests of what a plan has of them.

    Raises `UnplannableCallError` where no C can be generated.
    """
    return {digest: _c_of(code) if code.kind == "tir" else code for digest, code in codes.items()}


def _c_of(code: KernelCode) -> KernelCode:
    passes = passes_of(code)
    try:
        from tilelang import tvm
        from tilelang.backend.module import create_backend_context
        from tilelang.engine.lower import device_codegen_without_compile
    except ImportError as error:
        raise UnplannableCallError(
            f"TileLang, which compiles its IR, is not installed or another one ({error})"
        ) from None
    try:
        module = tvm.ir.load_json(json.loads(code.text)["device"])
        context = create_backend_context("c", None, "auto")
        with tvm.transform.PassContext(opt_level=3, config=passes), context.target:
            text = str(device_codegen_without_compile(module, context).inspect_source())
    except Exception as error:  # of TVM
        raise UnplannableCallError(f"{code.name}: IR that does not compile: {str(error).strip()[-200:]}") from None
    return code.model_copy(update={"kind": "c", "text": text, "settings": {}})


def passes_of(code: KernelCode) -> dict[str, Any]:
    """Return the configuration of TileLang's passes that a kernel asks for. Raises `UnplannableCallError`."""
    passes: dict[str, Any] = code.settings.get("passes", {})
    for name, value in passes.items():
        if not re.fullmatch(r"(tl|tirx?)\.\w+", name) or not isinstance(value, bool | int):
            raise UnplannableCallError(f"{code.name}: the pass configuration {name}={value!r}")
    return passes
