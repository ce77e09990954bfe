"""The backend of torch.compile: with the store's operators in place, and without any as the backend "inductor"."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.deploy.models.backend import chosen, kernelwright
from kernelwright.deploy.models.packages import load_operator
from kernelwright.deploy.models.store import RegionStore, _opened
from kernelwright.deploy.models.substitution import LOADED, LoadedEntries, RegionPass
from torch import nn
from torch._inductor.utils import run_and_get_code

from .regions import ROOT, entry, process, regions

CALL = "torch.ops.kernelwright.region.default"


class Network(nn.Module):
    """Two layers with the same region, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = nn.functional.silu(layer(x))
        return self.last(x)


def region_text() -> Any:
    """The region of a layer of `Network`."""
    given = torch.randn(8, 16), torch.randn(16, 16), torch.randn(16)
    (region,) = regions(lambda x, weight, bias: nn.functional.silu(nn.functional.linear(x, weight, bias)), *given)
    return region


def compiled(call: Callable[..., Any], backend: Any, *inputs: torch.Tensor, **options: Any) -> tuple[Any, str]:
    """What a compiled call returns, and Inductor's code."""
    torch.compiler.reset()
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        result, codes = run_and_get_code(torch.compile(call, backend=backend, **options), *inputs)
    return result, re.sub(r"AOT ID: .*", "", "\n".join(codes))  # that counts up


def test_a_region_of_the_store_is_computed_by_its_operator(store: RegionStore) -> None:
    torch.manual_seed(0)
    model, x = Network().eval(), torch.randn(8, 16)
    with torch.no_grad():
        expected, plain = compiled(model, "inductor", x)
        empty, code = compiled(model, kernelwright, x)  # there is no store
        assert torch.equal(empty, expected) and code == plain
        found = entry(region_text())
        path = store.add(found)
        assert compiled(model, kernelwright, x)[1] == plain  # a process lists its store once
        _opened.cache_clear()
        result, code = compiled(model, kernelwright, x)
    torch.testing.assert_close(result, expected)
    assert code.count(f"{CALL}('{path.stem}'") == 2
    assert path.stem in chosen()[1]


def test_no_entry_that_fits_and_disabled_are_bit_for_bit_inductor(
    store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model, x = Network().eval(), torch.randn(8, 16)
    (other,) = regions(lambda x: x.sin() + 1, torch.randn(3))
    store.add(entry(other))
    with torch.no_grad():
        expected, plain = compiled(model, "inductor", x)
        result, code = compiled(model, kernelwright, x)
        assert torch.equal(result, expected) and code == plain
        store.add(entry(region_text(), ("return v", "return 2 * v")))
        monkeypatch.setenv("KERNELWRIGHT_DISABLE", "1")
        result, code = compiled(model, kernelwright, x)
        assert torch.equal(result, expected) and code == plain


def test_other_sizes_are_left_to_inductor(store: RegionStore) -> None:
    store.add(entry(region_text(), ("return v", "return 2 * v")))
    model, x = Network().eval(), torch.randn(7, 16)
    with torch.no_grad():
        result, code = compiled(model, kernelwright, x)
        torch.testing.assert_close(result, model(x))
        assert CALL not in code
        with pytest.warns(UserWarning, match="sizes that change"):
            dynamic, code = compiled(model, kernelwright, torch.randn(8, 16), dynamic=True)
    assert CALL not in code and dynamic.shape == (8, 4)


def test_training_uses_regions_of_forward_and_backward(store: RegionStore) -> None:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight).sin()

    torch.manual_seed(0)
    given = [torch.randn(8, 16), torch.randn(16, 4)]
    inputs, others = ([item.clone().requires_grad_() for item in given] for _ in range(2))
    function(*inputs).sum().backward()
    product = given[0] @ given[1]
    (_, backward) = regions(lambda x, mm, tangent: x.t() @ (tangent * mm.cos()), given[0], product, product)
    store.add(entry(backward, ("return v", "return 3 * v")))
    torch.compiler.reset()
    torch.compile(function, backend=kernelwright)(*others).sum().backward()
    torch.testing.assert_close(others[0].grad, inputs[0].grad)
    torch.testing.assert_close(others[1].grad, 3 * inputs[1].grad)


def test_a_region_that_makes_tensors_of_numbers_is_served(store: RegionStore) -> None:
    """As a mask or the gradient of relu does."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight + torch.full([4], 2.0)).sin()

    x, weight = torch.randn(4, 4), torch.randn(4, 4)
    (region,) = regions(function, x, weight)
    assert "aten.full" in region.text
    store.add(entry(region))
    result, code = compiled(function, kernelwright, x, weight)
    torch.testing.assert_close(result, function(x, weight))
    assert CALL in code


def test_values_in_another_order_of_dimensions_go_in_and_out(store: RegionStore) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).sin().transpose(0, 1).reshape(4, -1) + 1

    x = torch.randn(2, 3, 4)
    first = regions(lambda x: x.transpose(1, 2).sin().transpose(0, 1).reshape(4, -1) + 1, x)
    for region in first:
        store.add(entry(region))
    result, code = compiled(function, kernelwright, x)
    torch.testing.assert_close(result, function(x))
    assert code.count(f"{CALL}('") == len(first)


@pytest.mark.parametrize(
    ("change", "fields", "message"),
    [
        (("import torch\n", "import torch, nothing_at_all\n"), {}, "the kernel of the entry .* failed"),
        (("return v", "raise RuntimeError('broken')\n        return v"), {}, "failed \\(broken\\); plain torch"),
        (("", ""), {"table": {}}, "is not used: 'name'"),
    ],
)
def test_entries_that_fail_are_told_and_replaced(
    store: RegionStore, change: tuple[str, str], fields: dict[str, Any], message: str
) -> None:
    model, x = Network().eval(), torch.randn(8, 16)
    store.add(entry(region_text(), change, **fields))
    with torch.no_grad(), pytest.warns(UserWarning, match=message):
        result, _ = compiled(model, kernelwright, x)
    torch.testing.assert_close(result, model(x))


def test_an_entry_that_does_not_fit_its_region_is_not_counted(store: RegionStore) -> None:
    table = copy.deepcopy(entry(region_text()).table)
    table["kernels"][0]["arguments"][1][1] = [9, 16]
    name = store.add(entry(region_text(), table=table)).stem
    with torch.no_grad(), pytest.warns(UserWarning, match="is not used: its kernel is for other"):
        compiled(Network().eval(), kernelwright, torch.randn(8, 16))
    assert name not in chosen()[1]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("substitution.regions_of", "a graph is left to Inductor: broken"),
        ("substitution.written_region", "a region is left to Inductor: broken"),
        ("store._examined", "a region is left to Inductor: broken"),
        ("substitution.load_operator", "is not used: broken"),
    ],
)
def test_a_pass_that_fails_leaves_the_graph_to_inductor(
    store: RegionStore, monkeypatch: pytest.MonkeyPatch, where: str, message: str
) -> None:
    store.add(entry(region_text()))
    _opened.cache_clear()
    model, x = Network().eval(), torch.randn(8, 16)

    def broken(*arguments: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(f"kernelwright.deploy.models.{where}", broken)
    monkeypatch.setattr(LOADED, "_operators", {})
    with torch.no_grad():
        expected, plain = compiled(model, "inductor", x)
        with pytest.warns(UserWarning, match=message):
            result, code = compiled(model, kernelwright, x)
    assert torch.equal(result, expected) and code == plain


def test_threads_load_an_entry_once(store: RegionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the forward and the backward pass; the second would find a module that is not complete."""
    path = store.add(entry(region_text()))
    file = store.named(path.stem)
    assert file is not None
    started = []

    def slow(*given: Any) -> Any:
        started.append(given)
        time.sleep(0.2)
        return load_operator(*given)

    monkeypatch.setattr("kernelwright.deploy.models.substitution.load_operator", slow)
    loaded = LoadedEntries()
    with ThreadPoolExecutor(3) as pool:
        assert len({*pool.map(loaded.load, [file] * 3)}) == 1
    assert len(started) == 1


def test_a_mode_and_options_reach_inductor(store: RegionStore) -> None:
    store.add(entry(region_text()))
    model, x = Network().eval(), torch.randn(8, 16)
    with torch.no_grad():
        _, code = compiled(model, kernelwright, x, options={"cpp.threads": 1})
        assert CALL in code
        with pytest.raises(RuntimeError, match="Unexpected optimization option nothing"):
            compiled(model, kernelwright, x, options={"nothing": 1})


PROGRAM = """
import json, torch
from kernelwright.deploy.models.backend import chosen, kernelwright

def function(x, weight, bias):
    return torch.nn.functional.silu(torch.nn.functional.linear(x, weight, bias)) @ weight

torch.manual_seed(0)
given = torch.randn(8, 16), torch.randn(16, 16), torch.randn(16)
with torch.no_grad():
    result = torch.compile(function, backend=kernelwright)(*given)
    torch.testing.assert_close(result, function(*given))
hits = torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"]
hits += torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
print(json.dumps([chosen(), hits]))
"""


def test_sizes_that_change_are_left_to_inductor_with_a_note(store: RegionStore) -> None:
    store.add(entry(region_text()))
    _opened.cache_clear()
    torch.manual_seed(0)
    model, given = Network().eval(), [torch.randn(rows, 16) for rows in (8, 6, 8, 5, 1, 8)]
    call = torch.compile(model, backend=kernelwright)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results, codes = run_and_get_code(lambda: list(map(call, given)))
        for x, result in zip(given, results, strict=True):
            torch.testing.assert_close(result, model(x))
    assert CALL in codes[0]  # for eight rows, of which the store has an entry
    assert len(codes) > 1 and not any(CALL in code for code in codes[1:])
    notes = [str(item.message) for item in caught if "sizes that change" in str(item.message)]
    assert notes and notes[0].startswith("kernelwright: 1 inputs of a graph have sizes that change")


def test_two_processes_choose_the_same_and_compiled_code_is_reused(store: RegionStore, tmp_path: Path) -> None:
    path = store.add(entry(region_text()))
    runs = [process(PROGRAM, tmp_path) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    (first, cold), (second, warm) = (json.loads(run.stdout) for run in runs)
    assert first == second and first[1] == [path.stem]
    assert cold == 0 and warm > 0  # from torch.compile's cache on disk, which names the entry


def test_compiled_code_of_other_versions_is_not_reused(store: RegionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code in torch.compile's caches names entries, which another version of their language does not use."""
    before = RegionPass(store).uuid()
    assert RegionPass(store).uuid() == before
    monkeypatch.setattr("kernelwright.deploy.models.substitution.version_of", lambda name: "1.0")
    assert RegionPass(store).uuid() != before


def test_torch_finds_the_backend_by_its_name(store: RegionStore, tmp_path: Path) -> None:
    """As from an installed package, with the entry point that pyproject.toml declares."""
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    metadata = tmp_path / "site" / "backend_test-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: backend-test\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in declared.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[torch_dynamo_backends]", *lines, ""]))
    pages = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs" / "models.md").read_text(), re.MULTILINE | re.DOTALL)
    program = (
        "import sys; sys.path.append('site'); import torch\n"
        "assert 'kernelwright' in torch._dynamo.list_backends()\n"
        "assert 'kernelwright.deploy.models.backend' not in sys.modules\n"
    )
    run = process(program + "\n".join(pages), tmp_path)
    assert run.returncode == 0, run.stderr


def test_its_module_imports_nothing_heavy() -> None:
    program = (
        "import sys, kernelwright.deploy.models.backend\n"
        "print([name for name in ('torch', 'pydantic', 'yaml') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
