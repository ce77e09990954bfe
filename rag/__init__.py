"""Retrieval of worked examples: kernel analysis, embeddings, an index, the search, the rendering."""

from .code.features import Features, features
from .code.syntax import parse
from .code.techniques import added, techniques
from .embeddings import Embedder, load_embedder
from .render import within
from .retriever import ExampleRetriever, Weights
from .runs import run_examples

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
