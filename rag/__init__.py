"""Retrieval of worked examples: kernel analysis, embeddings, an index, the search, the rendering."""

from .embeddings import Embedder, load_embedder
from .render import within
from .retriever import ExampleRetriever, Weights
from .runs import kernel_operation, run_examples

__all__ = [
    "Embedder",
    "ExampleRetriever",
    "Weights",
    "kernel_operation",
    "load_embedder",
    "run_examples",
    "within",
]
