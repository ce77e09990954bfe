"""Problems that are recorded while a model runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import TorchProblem
from kernelwright.deploy.models.backend import kernelwright
from kernelwright.deploy.models.recording import recorder_for
from kernelwright.deploy.models.reference import architecture, reference_text, region_key
from kernelwright.deploy.models.statistics import TensorStatistics
from torch import nn


class Embedded(nn.Module):
    """Tokens, two equal layers, and a buffer that is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.tokens(tokens)
        for layer in self.layers:
            x = nn.functional.relu(layer(x))
        return nn.functional.dropout(x, 0.1, self.training)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KERNELWRIGHT_RECORD", str(tmp_path / "recorded"))
    torch.compiler.reset()
    yield tmp_path / "recorded"
    torch.compiler.reset()
    recorder_for.cache_clear()


def loaded(path: Path) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(path.read_text(), namespace)
    return namespace


def test_each_region_becomes_a_problem_once(folder: Path) -> None:
    torch.manual_seed(0)
    model = Embedded().eval()
    tokens = torch.randint(3, 40, (4, 8))
    with torch.no_grad():
        expected = model(tokens)
        model.calls.zero_()
        compiled = torch.compile(model, backend=kernelwright)
        for _ in range(3):
            torch.testing.assert_close(compiled(tokens), expected)
    assert model.calls.item() == 3  # looking at values writes to nothing
    recorder_for(folder).write()
    paths = sorted(folder.iterdir())
    sources = [path.read_text() for path in paths]
    (layer,) = (text for text in sources if "addmm" in text)
    assert "It ran 6 times, in 2 places of the model's graphs." in layer
    (lookup,) = (path for path in paths if "embedding" in path.read_text())
    drawn = loaded(lookup)
    inputs = drawn["get_inputs"]()
    assert drawn["Model"]()(*inputs).shape == (4, 8, 16)
    (numbers,) = (item for item in inputs if not item.is_floating_point())
    assert int(numbers.min()) >= 3 and int(numbers.max()) < 40
    for path, text in zip(paths, sources, strict=True):
        key = region_key(reference_text(text), architecture("cpu"))
        assert path.name == f"region_{key[:16]}.py"
        assert TorchProblem(id=path.stem, name=path.stem, source=text).is_own


def test_training_is_recorded_forward_and_backward(folder: Path) -> None:
    torch.manual_seed(0)
    model = Embedded()
    state = torch.random.get_rng_state()
    torch.compile(model, backend=kernelwright)(torch.randint(0, 50, (4, 8))).sum().backward()
    assert model.layers[0].weight.grad is not None and not torch.equal(state, torch.random.get_rng_state())
    sources = [path.read_text() for path in folder.iterdir()]
    assert any("addmm" in text for text in sources) and any("aten.mm" in text for text in sources)
    assert not any("inductor_random" in text for text in sources)


def test_operators_of_other_packages_run_once(folder: Path) -> None:
    """They may count, or talk to other processes, which do not record."""
    calls = []

    @torch.library.custom_op("kernelwright_tests::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x + 100

    counted.register_fake(torch.empty_like)
    x = torch.rand(4, 4)
    with torch.no_grad():
        result = torch.compile(lambda x: counted((x @ x).relu()) @ x, backend=kernelwright)(x)
    torch.testing.assert_close(result, ((x @ x).relu() + 100) @ x)
    assert len(calls) == 1
    before, after = sorted((path.read_text() for path in folder.iterdir()), key=lambda text: "relu" not in text)
    assert "clamp(" in before and "torch.randn([4, 4]).to(torch.float32)" in after


def test_a_folder_that_cannot_be_written_is_told_once(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.warns(
        UserWarning, match="nothing is recorded: cannot write .*; choose another KERNELWRIGHT_RECORD"
    ) as caught:
        result = torch.compile(lambda x: x.sin() + 1, backend=kernelwright)(torch.zeros(3))
    assert result.tolist() == [1.0, 1.0, 1.0] and len(caught) == 1


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.tensor([[0, 3, 3, 9]]), r"torch.randint\(0, 10, \[1, 4\]\).sort\(-1\)\[0\].to\(torch.int64\)"),
        (torch.tensor([5, 2]), r"torch.randint\(2, 6, \[2\]\).to\(torch.int64\)"),
        (torch.tensor([True, False, True, True]), r"\(torch.rand\(\[4\]\) >= 0.25\).to\(torch.bool\)"),
        (torch.full((2,), 3.0), r"torch.full\(\[2\], 3.0\).to\(torch.float32\)"),
        (torch.tensor([0.0, float("-inf")]), r"torch.full\(\[2\], 0.0\).masked_fill\(.* < 0.5, float\(\"-inf\"\)\).*"),
        (torch.tensor([0.0, 0.0, 1.0, 2.0]), r".*\* \(torch.rand\(\[4\]\) >= 0.5\)\).*"),
        (torch.zeros(0, 3), r"torch.full\(\[0, 3\], 0.0\).to\(torch.float32\)"),
        (torch.zeros(4, 6)[:, ::2], r"torch.empty_strided\(\(4, 3\), \(6, 2\), dtype=torch.float32\).copy_\(.*"),
    ],
)
def test_others_of_the_kind_are_drawn(tensor: torch.Tensor, expected: str) -> None:
    expression = TensorStatistics.of(tensor).expression
    assert re.fullmatch(expected, expression), expression
    drawn = eval(expression, {"torch": torch})
    assert drawn.shape == tensor.shape and drawn.dtype == tensor.dtype and drawn.stride() == tensor.stride()


def test_normal_numbers_keep_their_range() -> None:
    torch.manual_seed(0)
    given = torch.randn(1000) * 5 + 100
    drawn = eval(TensorStatistics.of(given).expression, {"torch": torch})
    assert abs(float(drawn.mean() - given.mean())) < 1 and abs(float(drawn.std() - given.std())) < 1
    assert float(drawn.max()) <= float(given.max()) + 1
