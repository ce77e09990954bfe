"""Retrieval of worked examples: what a kernel does and has, embeddings, an index, the search, the rendering."""

from .embeddings import Embedder, load_embedder
from .features import Features, features
from .render import within
from .retriever import ExampleRetriever, Weights
from .runs import run_examples
from .syntax import parse
from .techniques import added, techniques

__all__ = [
    "Embedder",
    "ExampleRetriever",
    "Features",
    "Weights",
    "added",
    "features",
    "load_embedder",
    "parse",
    "run_examples",
    "techniques",
    "within",
]
