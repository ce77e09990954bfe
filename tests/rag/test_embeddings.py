"""Which embedding model is taken, and what it gives."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernelwright.core import OptionError
from kernelwright.rag import embeddings, load_embedder
from kernelwright.rag.embeddings import PACKAGED, VARIABLE

from .models import embedder

PACKAGE = importlib.util.find_spec(PACKAGED)
if PACKAGE is None or PACKAGE.origin is None:
    pytest.skip(f"could not find {PACKAGED}", allow_module_level=True)
MODEL = Path(PACKAGE.origin).with_name("model")


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    ],
)
def test_the_package_holds_the_model_that_sentence_transformers_published(name: str, digest: str) -> None:
    """docs/retrieval.md says where both come from. Nothing in it is code that is run: its weights are no pickle."""
    assert hashlib.sha256((MODEL / name).read_bytes()).hexdigest() == digest
    assert not [path.name for path in MODEL.rglob("*") if path.suffix in (".py", ".bin", ".pt", ".pkl", ".so")]


def _without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None if name in missing else find(name))


def test_vectors_are_normalized_and_mean_something() -> None:
    texts = ["matrix product", "gemm: multiply two matrices", "a recipe for soup"]
    vectors = embedder().encode(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (3, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_a_vector_does_not_depend_on_its_neighbours() -> None:
    alone = embedder().encode(["transpose"])
    beside = embedder().encode(["a much longer text about something else altogether", "transpose"])
    assert np.array_equal(alone[0], beside[1])


def test_vectors_are_those_of_the_model_itself() -> None:
    from sentence_transformers import SentenceTransformer

    text = "online softmax of long rows"
    with torch.inference_mode():
        expected = SentenceTransformer(str(MODEL), device="cpu").encode([text], normalize_embeddings=True)
    assert embedder().encode([text]) == pytest.approx(expected, abs=1e-6)


def test_the_number_of_threads_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    embedder().encode(["a text"])
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("missing", ["sentence_transformers", "faiss", PACKAGED])
def test_without_a_model_one_line_says_so(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    _without(monkeypatch, missing)
    notes: list[str] = []
    assert load_embedder(notes.append) is None
    assert len(notes) == 1 and "by words only" in notes[0] and "pip install" in notes[0]


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_model_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_variable: bool
) -> None:
    wanted: Any = str(tmp_path / "nothing")
    if by_variable:
        monkeypatch.setenv(VARIABLE, wanted)
    with pytest.raises(OptionError, match=f"cannot load embedding model .*nothing.*{VARIABLE}") as caught:
        load_embedder(pytest.fail, None if by_variable else wanted)
    assert "\n" not in str(caught.value)


def test_a_model_that_was_asked_for_needs_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "faiss")
    with pytest.raises(OptionError, match="faiss not installed"):
        load_embedder(pytest.fail, "some/model")


def test_a_folder_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(MODEL))
    chosen = load_embedder(pytest.fail)
    assert chosen is not None and chosen.name == embedder().name


@pytest.mark.parametrize("damage", ["gone", "empty", "no weights", "cut weights"])
def test_a_damaged_packaged_model_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str
) -> None:
    model = tmp_path / "model"
    if damage == "empty":
        model.mkdir()
    elif damage != "gone":
        shutil.copytree(MODEL, model)
        for path in model.rglob("*.safetensors"):
            path.unlink() if damage == "no weights" else path.write_bytes(path.read_bytes()[:1000])
    monkeypatch.setattr(embeddings, "find_spec", lambda name: ModuleSpec(name, None, origin=str(tmp_path / "init.py")))
    notes: list[str] = []
    assert load_embedder(notes.append) is None
    (note,) = notes
    assert "by words only" in note and "pip install --force-reinstall" in note and "\n" not in note
