"""Techniques and features are told from code, and from nothing else."""

from __future__ import annotations

import ast
import random
from collections import Counter
from pathlib import Path

import pytest
from kernelwright.core import TECHNIQUES, WorkedExample
from kernelwright.corpus import load_examples
from kernelwright.corpus.kernels import BACKENDS, list_kernels
from kernelwright.rag import added, features, parse, techniques

from .kernels import RELU
from .technique_cases import HAS, HAS_NOT, ONLINE, PRODUCT_TF32, TEXTBOOK, TWO_PASSES, WORDS

SOURCES = [file.path for backend in BACKENDS for file in list_kernels(backend)]
EXAMPLES = load_examples(pytest.fail)


def _id(case: object) -> str | None:
    return case if isinstance(case, str) and "\n" not in case else None


@pytest.mark.parametrize(("technique", "what", "source"), HAS, ids=_id)
def test_a_technique_is_recognized(technique: str, what: str, source: str) -> None:
    assert technique in techniques(source), what


@pytest.mark.parametrize(("technique", "what", "source"), HAS_NOT, ids=_id)
def test_what_only_looks_like_it_is_not(technique: str, what: str, source: str) -> None:
    assert technique not in techniques(source), what


def test_words_alone_are_nothing() -> None:
    assert techniques(WORDS) == {"coalescing", "vectorized-access"}


def test_every_technique_is_in_the_vocabulary() -> None:
    found = {technique for path in SOURCES for technique in techniques(path.read_text())}
    assert found <= set(TECHNIQUES) and len(found) >= 10


def test_what_a_change_adds() -> None:
    assert added(TWO_PASSES, ONLINE) == ("online-reduction",)
    assert added(RELU, RELU) == ()
    assert added(RELU, RELU.replace("BLOCK = 1024", "BLOCK = 4096")) == ("launch-tuning",)
    two = RELU.replace("        return y", "        return torch.sigmoid(y)")
    assert added(two, RELU) == ("fusion",)
    assert added(RELU, two) == ()


def test_labels_of_the_examples_are_told_from_their_code() -> None:
    right, extra, missed = Counter[str](), Counter[str](), Counter[str]()
    for example in EXAMPLES:
        told, labels = set(added(example.before, example.after)), set(example.techniques)
        right.update(told & labels)
        extra.update(told - labels)
        missed.update(labels - told)
    assert right.total() >= 0.8 * (right + extra).total(), extra
    assert right.total() >= 0.8 * (right + missed).total(), missed


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.slug)
def test_the_operation_of_an_example_is_guessed(example: WorkedExample) -> None:
    for source in (example.before, example.after):
        assert features(parse(source)).operation == example.operation


OPERATIONS = {
    **{"1_1": "matmul", "1_19": "elementwise", "1_23": "softmax", "1_36": "rmsnorm", "1_38": "reduction"},
    **{"1_40": "layernorm", "1_47": "reduction", "1_94": "reduction", "2_10": "convolution"},
    **{"2_12": "matmul", "2_61": "convolution", "2_95": "matmul"},
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parts[-3]} {path.stem}")
def test_the_operation_of_a_shipped_kernel_is_guessed(path: Path) -> None:
    assert features(parse(path.read_text())).operation == OPERATIONS[path.stem]


def test_features_are_counted() -> None:
    found = features(parse(ONLINE))
    assert (found.kernels, found.steps, found.loops, found.products) == (1, 1, 1, 0)
    assert found.reductions == ("max", "sum") and found.functions == ("exp",)
    assert features(parse(PRODUCT_TF32)).products == 1
    assert features(parse(TEXTBOOK)).operation == "matmul"
    assert "softmax" in found.text() and "exp" in found.text()


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
        assert techniques(source) <= set(TECHNIQUES)
        assert features(parse(source)).text()


@pytest.mark.parametrize("source", ["def f(:", "x = \0"])
def test_no_python_is_refused(source: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        techniques(source)
