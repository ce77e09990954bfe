"""AMD's assembly, as Triton leaves it: what it may contain.

The text comes from the candidate's process, so nothing in it is believed. Only known directives and plain instructions
pass, each on a line of its own, so that no macro or data can hide others; debug information is dropped. A kernel may
compute what it likes on its arguments; it may keep nothing beyond a launch, jump to no address that it computed, and
read no clock and nothing that tells how it was launched.
"""

from __future__ import annotations

import re

from ...core.launch_plan import KernelCode
from .values import UnplannableCallError

_SECTIONS = frozenset({".rodata", ".AMDGPU.csdata", ".AMDGPU.gpr_maximums", '".note.GNU-stack"'})
_DEBUG = re.compile(r"\.section\s+\.debug_\w+,")
_METADATA = ".amdgpu_metadata", ".end_amdgpu_metadata"
_PLAIN_LINE = re.compile(
    r"\s*(---|\.\.\.|\.(end_)?amdgpu_metadata|(- +)?[.\w]+:(\s+([\w.$+-]+|\[\]))?|- +[\w.$+-]+)?\s*"
)
"""A line of metadata: keys and plain words. Assemblers end it where a line begins with `.end_amdgpu_metadata`, whatever
follows, and YAML knows other ways to write a key."""
_DROPPED = re.compile(r"\.(loc|file|cfi_\w+)\b")
"""Line numbers, which may name files."""
_LABEL = re.compile(r"[.\w$]+:")
_INSTRUCTION = re.compile(r"(?:s|v|ds|buffer|global|flat)_[a-z0-9_]+(?:\s+[\w\s.,:|()\[\]+$-]*)?")
_KERNEL = re.compile(r"\.amdhsa_(\w+)\s+(-?\w+)")
_DIRECTIVES = tuple(
    map(
        re.compile,
        (
            r'\.amdgcn_target\s+"[\w.:+-]+"',
            r"\.amdhsa_code_object_version\s+\d",
            r"\.text",
            r"\.p2alignl?\s+\d+(,\s*(0x0|3212836864|3214868480)|,\s*,\s*\d+)?",  # filled with s_code_end, or nothing
            r"\.fill\s+\d+,\s*4,\s*(3212836864|3214868480)",
            r"\.size\s+[\w$]+,\s*\.L[\w$]+-[\w$]+",
            r"\.set\s+(\.L[\w$.]+|amdgpu\.\w+),\s*[\w$.+,() -]+",
            r"\.amdhsa_inst_pref_size\s+[\w.$+*/<>&|()~ -]+",
            r"\.end_amdhsa_kernel",
        ),
    )
)
_TELLING = re.compile(
    r"s_(memtime|memrealtime|getreg\w*|get_\w+|getpc\w*|setpc\w*|swappc\w*|call\w*|rfe\w*|trap|sethalt|ttrace\w*"
    r"|cbranch_[gij]_?\w*|subvector\w*|sendmsg(halt|_rtn)\w*|setreg_b32|setprio_\w*|sleep_var)\b|ds_(gws|ordered)\w*"
)
"""Instructions that read clocks and how a wave was launched, jump to computed addresses, or use memory of the whole
device."""
_MESSAGE = re.compile(r"s_sendmsg\s+(?!sendmsg\(MSG_DEALLOC_VGPRS\)$)")
_SETREG = re.compile(r"s_setreg_imm32_b32\s+(?!hwreg\(HW_REG_(WAVE_)?MODE,)")
_GDS = re.compile(r"\bgds\b")
_TOLD = frozenset({"dispatch_ptr", "queue_ptr", "dispatch_id", "private_segment_buffer", "flat_scratch_init"})
"""What the descriptor of a kernel may ask to find in registers, and ours may not. Some of Triton's
kernels for gfx950 do, without any use of it."""
_SCRATCH = "scratch memory, which outlives a launch"
_NONE = frozenset({"private_segment_fixed_size", "uses_dynamic_stack", "enable_private_segment"})
"""Fields of the descriptor that are 0 without scratch memory."""
_ARGUMENT = re.compile(r"\.value_kind:\s+(\w+)")
_ARGUMENTS = re.compile(
    r"global_buffer|by_value|hidden_(none|grid_dims|dynamic_lds_size|(block_count|group_size|remainder|global_offset)_[xyz])"
)


def checked_amdgcn(code: KernelCode) -> str:
    """Return the text without debug information; raises `UnplannableCallError` where it has anything not allowed."""
    kept, skipping, metadata, kernels = [], False, False, []
    for line in code.text.splitlines():
        text = line.split(";")[0].strip()
        if text == _METADATA[0]:
            skipping, metadata = False, True
        if metadata:
            _require_plain(code, line)
            kept.append(line)
            metadata = text != _METADATA[1]
            continue
        if _DEBUG.match(text):
            skipping = True
        elif text == ".text" or text.startswith(".section"):
            skipping = False
        if skipping or not text or _DROPPED.match(text):
            continue
        if re.fullmatch(r"\.amdhsa_kernel\s+[\w$]+", text):
            kernels.append(text.split()[-1])
        elif (why := _refused(text, code.entry)) is not None:
            raise UnplannableCallError(f"{code.name}: AMD's assembly with {why}")
        kept.append(text)
    if kernels != [code.entry]:
        raise UnplannableCallError(f"{code.name}: AMD's assembly with other kernels than the one that is launched")
    return "\n".join(kept) + "\n"


def _refused(text: str, entry: str) -> str | None:
    """Return what a line has that is not allowed; None where it may stay."""
    if not text.startswith("."):
        if _LABEL.fullmatch(text):
            return None
        if text.startswith("scratch_"):
            return _SCRATCH
        for pattern in (_TELLING, _MESSAGE, _SETREG, _GDS):
            if (found := pattern.search(text)) is not None:
                return f"'{found[0].strip()}'"
        return None if _INSTRUCTION.fullmatch(text) else f"'{text[:60]}', which is no plain instruction"
    if _LABEL.fullmatch(text) or any(pattern.fullmatch(text) for pattern in _DIRECTIVES):
        return None
    if (field := _KERNEL.fullmatch(text)) is not None:
        name, value = field.groups()
        if name.removeprefix("user_sgpr_") in _TOLD and value != "0":
            return f"'.amdhsa_{name}', which tells how it was launched"
        if name in _NONE and value != "0":
            return _SCRATCH
        return None
    if text in (f".globl\t{entry}", f".type\t{entry},@function"):
        return None
    if text.startswith(".section") and text.split(None, 1)[1].split(",")[0] in _SECTIONS:
        return None
    return f"'{text[:60]}'"


def _require_plain(code: KernelCode, line: str) -> None:
    """Raise where the metadata, which the driver reads, asks for arguments that are not the launch's."""
    if not _PLAIN_LINE.fullmatch(line):
        raise UnplannableCallError(f"{code.name}: AMD's assembly with '{line.strip()[:60]}' in its metadata")
    found = _ARGUMENT.search(line)
    if found is not None and not _ARGUMENTS.fullmatch(found[1]):
        raise UnplannableCallError(f"{code.name}: AMD's assembly with the argument '{found[1]}'")
    if re.search(r"\.private_segment_fixed_size:\s+[1-9]", line):
        raise UnplannableCallError(f"{code.name}: AMD's assembly with {_SCRATCH}")
