"""The searched text of an example, split by technique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core import TECHNIQUES, WorkedExample

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "matmul": ("matrix product", "matrix multiplication", "gemm", "linear layer", "dense projection", "gemv"),
    "softmax": ("probabilities", "normalized exponentials"),
    "layernorm": ("layer norm", "layer normalization", "mean and variance"),
    "rmsnorm": ("rms norm", "root mean square normalization"),
    "attention": ("scaled dot-product attention", "transformer", "queries, keys and values", "sdpa"),
    "reduction": ("sum", "mean", "total", "norm"),
    "transpose": ("swap dimensions", "permute axes", "turn a matrix"),
    "elementwise": ("pointwise", "activation", "unary or binary operation"),
    "convolution": ("conv", "filter", "kernel window", "im2col"),
    "cross-entropy": ("cross entropy", "loss", "negative log-likelihood", "log softmax", "vocabulary", "nll"),
    "scan": ("prefix sum", "cumulative sum", "cumsum"),
    "embedding": ("lookup table", "gather rows"),
    "rope": ("rotary position embedding",),
}
"""Synonyms of an operation, as users may search for it."""


@dataclass(frozen=True)
class Document:
    """One entry of the index: an example under one of its techniques."""

    example: int
    """Index of the example."""
    text: str


def documents(number: int, example: WorkedExample) -> list[Document]:
    """Return the entries of an example, one per technique; one entry where it has none."""
    head = f"{example.title}. {_operation(example.operation)}."
    glossed = [f"{head} {spoken(name)}: {TECHNIQUES.get(name, '')}." for name in example.techniques]
    return [Document(number, f"{text} {example.story}") for text in glossed or [head]]


def words_of(example: WorkedExample) -> str:
    """Return the whole text of an example for the lexical search; title and techniques count twice."""
    labels = f"{example.title}. {' '.join(example.techniques)}."
    glosses = " ".join(TECHNIQUES.get(technique, "") for technique in example.techniques)
    return f"{labels} {labels} {_operation(example.operation)}. {glosses}. {example.story}"


def spoken(label: str) -> str:
    """Return a label as words: 'split k' for `split-k`."""
    return label.replace("-", " ")


def _operation(name: str) -> str:
    return ", ".join([spoken(name), *SYNONYMS.get(name, ())])
