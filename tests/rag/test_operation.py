"""The operation is told from code, and from nothing else."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from kernelwright.core import WorkedExample, backends
from kernelwright.corpus import load_examples
from kernelwright.corpus.kernels import list_kernels
from kernelwright.rag.code.operation import operation
from kernelwright.rag.code.syntax import parse

from .kernels import ONLINE, PRODUCT_TF32, RELU, TEXTBOOK, triton

SOURCES = [file.path for backend in backends() for file in list_kernels(backend)]
EXAMPLES = load_examples(pytest.fail)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.slug)
def test_the_operation_of_an_example_is_guessed(example: WorkedExample) -> None:
    for source in (example.before, example.after):
        assert operation(parse(source)) == example.operation


OPERATIONS = {
    **{"1_1": "matmul", "1_19": "elementwise", "1_23": "softmax", "1_36": "rmsnorm", "1_38": "reduction"},
    **{"1_40": "layernorm", "1_47": "reduction", "1_94": "reduction", "2_10": "convolution"},
    **{"2_12": "matmul", "2_61": "convolution", "2_95": "matmul"},
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parts[-3]} {path.stem}")
def test_the_operation_of_a_shipped_kernel_is_guessed(path: Path) -> None:
    assert operation(parse(path.read_text())) == OPERATIONS[path.stem]


@pytest.mark.parametrize(
    ("source", "expected"), [(ONLINE, "softmax"), (PRODUCT_TF32, "matmul"), (TEXTBOOK, "matmul"), (RELU, "elementwise")]
)
def test_the_operation_of_a_kernel_in_a_few_lines(source: str, expected: str) -> None:
    assert operation(parse(source)) == expected


def test_words_alone_are_nothing() -> None:
    wordy = triton("# softmax by tl.dot\n" + "tl.store(y_ptr, tl.load(x_ptr) * 2.0)", doc="tl.dot, tl.exp, tl.max")
    assert operation(parse(wordy)) == "elementwise"


def test_mutilated_kernels_are_read_all_the_same() -> None:
    """What a model writes may lack anything."""
    chance = random.Random(0)
    for path in [*SOURCES, *Path(__file__).parents[2].glob("corpus/examples/*/*/after.py")]:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            for field in ("args", "elts", "keywords", "body"):
                children = getattr(node, field, None)
                if isinstance(children, list) and len(children) > 1 and chance.random() < 0.1:
                    del children[chance.randrange(len(children))]
        source = ast.unparse(tree)
        assert operation(parse(source))


@pytest.mark.parametrize("source", ["def f(:", "x = \0"])
def test_no_python_is_refused(source: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        parse(source)
