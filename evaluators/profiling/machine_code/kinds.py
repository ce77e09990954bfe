"""Kinds of machine instructions, by what limits them."""

from __future__ import annotations

import functools

from .listing import Instruction

_KINDS: dict[str, tuple[str, ...]] = {
    "fp32": (
        "FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FSET", "FSWZADD", "HADD2", "HMUL2", "HFMA2", "HMNMX2",
        "HSETP2", "FMNMX3", "FADD2", "FFMA2", "FMUL2",
    ),
    "fp64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "special": ("MUFU", "TANH"),
    "conversion": ("F2F", "F2I", "I2F", "F2FP", "F2IP", "I2FP", "FRND", "I2IP"),
    "global": ("LDG", "STG", "LD", "ST", "UTMALDG", "UTMASTG", "UBLKCP", "LDGSTS"),
    "shared": ("LDS", "STS", "LDSM", "STSM"),
    "local": ("LDL", "STL"),
    "matrix": ("HMMA", "IMMA", "HGMMA", "QGMMA", "IGMMA", "BGMMA", "DMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA"),
    "barrier": ("BAR", "SYNCS", "DEPBAR", "WARPGROUP", "WARPSYNC", "MEMBAR", "LDGDEPBAR", "B2R", "ARRIVES"),
    "atomic": ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS"),
    "shuffle": ("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX"),
    "constant": ("LDC", "ULDC", "LDCU", "S2R", "S2UR", "CS2R"),
    "integer": (
        "IMAD", "IADD3", "LEA", "LOP3", "SHF", "ISETP", "SEL", "PRMT", "MOV", "UMOV", "UIADD3", "ULEA", "ULOP3", "USHF",
        "UISETP", "UIMAD", "USEL", "VIADD", "IABS", "PLOP3", "SGXT", "USGXT", "R2UR", "BREV", "FLO", "POPC", "IMNMX",
        "VIMNMX", "UPRMT", "UPLOP3", "P2R", "R2P", "IADD", "LEPC", "BMSK", "IDP", "UFLO", "UPOPC",
    ),
}  # fmt: skip
_KIND = {name: kind for kind, names in _KINDS.items() for name in names}


def kind_of(item: Instruction) -> str:
    """Return an instruction's kind; 'other' for branches and what is not listed."""
    return _by_name(item.name)


@functools.cache
def _by_name(name: str) -> str:
    return _KIND.get(name, "other")
