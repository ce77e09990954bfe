"""The notebooks run from top to bottom, and are kept without what they printed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .agent.history.recorded import RUN
from .quick_code import quickly

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SAMPLE = "../results/samples/cpu/agent"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_output_is_kept(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert cell.cell_type == "markdown" or (cell.outputs, cell.execution_count) == ([], None)


def test_inspect_history_shows_speedups_diffs_and_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUN", str(RUN))
    notebook = nbformat.read(NOTEBOOKS / "inspect_history.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(NOTEBOOKS))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = "\n".join(output["data"].get("text/plain", "") for output in outputs)
    assert "10.674205" in shown and "times as fast                         None" in shown  # timed in two runs
    assert "+                sum_square[p] = 1.0 / T.sqrt(sum_square[p] / C + eps)" in shown
    assert "hoist the reciprocal root" in shown and "search_examples" in shown
    assert [output for output in outputs if "image/png" in output["data"]]


def test_without_a_variable_it_opens_the_recorded_sample() -> None:
    text = (NOTEBOOKS / "inspect_history.ipynb").read_text()
    assert SAMPLE in text
    assert (NOTEBOOKS / SAMPLE).is_dir()


@pytest.mark.timeout(900)  # as in test_docs.py
def test_the_api_notebook_runs_on_the_package_alone() -> None:
    notebook = nbformat.read(NOTEBOOKS / "python_api.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert "from kernelwright" not in code and "import kernelwright\n" in code
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = ast.unparse(quickly(cell.source))
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=str(NOTEBOOKS))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = "\n".join(output["data"].get("text/plain", "") for output in outputs if "data" in output)
    assert "Status.OK" in shown and "start" in shown
