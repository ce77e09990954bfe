"""Spaces from constants, declarations and options."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, Kernel, PythonKernel, SpaceError, Target
from kernelwright.core.languages import TILELANG
from kernelwright.tuners.discovery import space_of

DECLARED = "BLOCK = 8\nTHREADS = 64\nMODE = 'fast'\nSEARCH_SPACE = {'BLOCK': [4, 8, 16], 'THREADS': [32, 64]}"


def kernel(source: str) -> Kernel:
    return PythonKernel(TILELANG, Target.CPU, source, "k")


def test_a_declared_space_is_taken_as_it_is() -> None:
    found = space_of(kernel(DECLARED + "\nCONSTRAINTS = ['BLOCK * THREADS <= 512']"), {}, [])
    assert found.origin == "declared"
    assert found.space.names == ("BLOCK", "THREADS")
    assert found.space.size == 5
    assert found.space.default == Config({"BLOCK": 8, "THREADS": 64})


def test_a_given_parameter_replaces_the_declared_one() -> None:
    found = space_of(kernel(DECLARED), {"BLOCK": [2, 8]}, [])
    assert found.origin == "given"
    assert {p.name: p.values for p in found.space.parameters} == {"BLOCK": (2, 8), "THREADS": (32, 64)}
    assert found.space.default == Config({"BLOCK": 8, "THREADS": 64})


def test_a_given_parameter_joins_the_declared_ones() -> None:
    found = space_of(kernel(DECLARED), {"MODE": ["fast", "exact"]}, [])
    assert found.space.names == ("BLOCK", "THREADS", "MODE")
    assert found.space.size == 12


def test_given_and_declared_constraints_both_hold() -> None:
    found = space_of(kernel(DECLARED + "\nCONSTRAINTS = ['BLOCK > 4']"), {}, ["THREADS == 32"])
    assert set(found.space) == {Config({"BLOCK": b, "THREADS": 32}) for b in (8, 16)}


def test_only_what_is_given_where_nothing_is_declared() -> None:
    found = space_of(kernel("BLOCK = 8\nTHREADS = 64"), {"THREADS": [128, 256]}, [])
    assert found.origin == "given"
    assert found.space.names == ("THREADS",)
    # The present value is not among those to try, so the first stands for it.
    assert found.space.default == Config({"THREADS": 128})


def test_a_space_is_discovered_from_names() -> None:
    found = space_of(kernel("BLOCK_M = 64\nNUM_WARPS = 4\nEPS = 1e-5\nNAME = 'x'\nHEADS = 8"), {}, ["NUM_WARPS > 1"])
    assert found.origin == "discovered"
    assert found.space.names == ("BLOCK_M", "NUM_WARPS")
    assert found.space.default == Config({"BLOCK_M": 64, "NUM_WARPS": 4})
    assert all(config["NUM_WARPS"] != 1 for config in found.space)


def test_a_declaration_without_parameters_is_none() -> None:
    assert space_of(kernel("TILE = 2\nSEARCH_SPACE = {}"), {}, []).origin == "discovered"
    assert space_of(kernel("EPS = 1\nSEARCH_SPACE = {}"), {"EPS": [1, 2]}, []).space.size == 2


@pytest.mark.parametrize(
    ("declaration", "given", "origin"),
    [
        ("SEARCH_SPACE = {'BLOCK': [4, 8, 16]}", {}, "declared"),
        ("SEARCH_SPACE = {'BLOCK': [4, 8]}", {"BLOCK": [8, 16]}, "given"),
        ("", {"BLOCK": [4, 8, 16]}, "given"),
        ("", {}, "discovered"),
    ],
)
def test_declared_constraints_hold_wherever_the_values_come_from(
    declaration: str, given: dict[str, list[int]], origin: str
) -> None:
    found = space_of(kernel(f"BLOCK = 8\n{declaration}\nCONSTRAINTS = ['BLOCK > 4']"), given, ["BLOCK < 16"])
    assert found.origin == origin
    assert set(found.space) == {Config({"BLOCK": 8})}
    with pytest.raises(SpaceError, match="'WARPS > 4' uses WARPS; the parameters are BLOCK"):
        space_of(kernel(f"BLOCK = 8\n{declaration}\nCONSTRAINTS = ['WARPS > 4']"), given, [])


@pytest.mark.parametrize("declared", ["[4, 4]", "[]", "[1e999]", "[2, 4]"])
def test_a_given_parameter_fixes_a_declared_one(declared: str) -> None:
    broken = kernel(f"BLOCK = 8\nSEARCH_SPACE = {{'BLOCK': {declared}}}\nCONSTRAINTS = ['BLOCK > 4']")
    with pytest.raises(SpaceError):
        space_of(broken, {}, [])
    assert set(space_of(broken, {"BLOCK": [4, 8]}, []).space) == {Config({"BLOCK": 8})}


def test_a_present_value_that_is_not_declared_gives_way_to_the_first() -> None:
    found = space_of(kernel("BLOCK = 8\nTHREADS = 64\nSEARCH_SPACE = {'BLOCK': [16, 4], 'THREADS': [32, 64]}"), {}, [])
    assert found.space.default == Config({"BLOCK": 16, "THREADS": 64})


def test_constraints_may_name_sizes_of_the_problem() -> None:
    source = kernel(DECLARED + "\nCONSTRAINTS = ['BLOCK <= M']")
    sizes = {"M": 8, "batch": 2}
    assert set(space_of(source, {}, ["THREADS * batch == 64"], sizes).space) == {
        Config({"BLOCK": b, "THREADS": 32}) for b in (4, 8)
    }
    early = space_of(source, {}, ["THREADS * batch == 64"], {"batch": 2}, profiled=False)
    assert early.space.constraints == ("THREADS * batch == 64",), "M is known when the problem is profiled"
    with pytest.raises(SpaceError, match="'BLOCK <= M' uses M; the parameters are BLOCK, THREADS, the problem's sizes"):
        space_of(source, {}, [], {"batch": 2})


@pytest.mark.parametrize(
    ("source", "given", "constraints", "says"),
    [
        (DECLARED, {"BLOK": [1]}, [], "k has no parameter BLOK; its constants are BLOCK, THREADS, MODE"),
        ("x = 1", {"BLOCK": [1]}, [], "k has no parameter BLOCK; its constants are none"),
        (
            "TILE = min(64, 128)",
            {"TILE": [1]},
            [],
            r"its constants are none \(computed, so not set: TILE = min\(64, 128\)\)",
        ),
        ("TILE = min(64, 128)", {}, [], r"no constant that looks like a tile.*TILE = min\(64, 128\)"),
        ("EPS = 1e-5\nSEARCH_SPACE = {}", {}, [], "declares no SEARCH_SPACE .* `params` BLOCK_M=32,64,128"),
        ("EPS = 1e-5", {}, [], "declares no SEARCH_SPACE .* `params` BLOCK_M=32,64,128"),
        (DECLARED, {}, ["BLOCK > 4", "BLOCK < 5"], "no config satisfies 'BLOCK < 5' together with 'BLOCK > 4'"),
        (DECLARED, {}, ["WARPS > 4"], "'WARPS > 4' uses WARPS; the parameters are BLOCK, THREADS"),
        (DECLARED, {"BLOCK": [4, 4]}, [], "names a value twice"),
    ],
)
def test_mistakes(source: str, given: dict[str, list[int]], constraints: list[str], says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        space_of(kernel(source), given, constraints)
