"""The vectors of texts: kept, added to, replaced when they are corrupt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from kernelwright.rag import index
from kernelwright.rag.index import FILE, open_index
from numpy.typing import NDArray

TEXTS = ["softmax", "matrix product", "transpose"]


class Letters:
    """Counts letters: a model without a model, that says how often it was asked."""

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.encoded = 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        counts = np.array([[1 + text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        lengths: NDArray[np.float32] = np.linalg.norm(counts, axis=1, keepdims=True).astype(np.float32)
        return counts / lengths


def _open(folder: Path | None, model: Letters, texts: Sequence[str] = TEXTS) -> tuple[NDArray[np.float32], list[str]]:
    notes: list[str] = []
    return open_index(texts, model, folder, notes.append).scores("softmax"), notes


def test_a_text_is_nearest_to_itself(tmp_path: Path) -> None:
    scores, notes = _open(tmp_path, Letters())
    assert scores[0] == pytest.approx(1.0) and scores.argmax() == 0 and notes == []


def test_the_second_time_nothing_is_embedded_but_the_query(tmp_path: Path) -> None:
    first, _ = _open(tmp_path, Letters())
    again = Letters()
    second, notes = _open(tmp_path, again)
    assert again.encoded == 1 and notes == []
    assert np.array_equal(first, second)


def test_only_new_texts_are_embedded_and_others_are_kept(tmp_path: Path) -> None:
    _open(tmp_path, Letters())
    model = Letters()
    scores, notes = _open(tmp_path, model, ["reduction", "softmax"])
    assert model.encoded == 2 and notes == [] and scores.argmax() == 1
    model = Letters()
    _open(tmp_path, model, [*TEXTS, "reduction", "softmax"])
    assert model.encoded == 1


def test_another_model_embeds_all_again_without_a_word(tmp_path: Path) -> None:
    _open(tmp_path, Letters())
    model = Letters("other")
    assert _open(tmp_path, model)[1] == [] and model.encoded == len(TEXTS) + 1


def test_what_is_asked_for_is_kept_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "KEPT", 4)
    _open(tmp_path, Letters())
    _open(tmp_path, Letters(), ["reduction", "scan"])
    model = Letters()
    _open(tmp_path, model, ["transpose", "reduction", "scan"])
    assert model.encoded == 1
    _open(tmp_path, model, TEXTS)
    assert model.encoded == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no header", "text"])
def test_a_corrupt_file_is_reported_and_replaced(tmp_path: Path, damage: str) -> None:
    good, _ = _open(tmp_path, Letters())
    path = tmp_path / FILE
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "flipped": data[:-5] + bytes([data[-5] ^ 255]) + data[-4:],
            "empty": b"",
            "no header": data.partition(b"\n")[2],
            "text": b'"hello"\n',
        }[damage]
    )
    scores, notes = _open(tmp_path, Letters())
    assert len(notes) == 1 and str(path) in notes[0] and "built again" in notes[0]
    assert np.array_equal(scores, good)
    model = Letters()
    assert _open(tmp_path, model)[1] == [] and model.encoded == 1


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    scores, notes = _open(tmp_path / "file", Letters())
    assert scores.argmax() == 0
    assert any("cannot write" in note for note in notes)


def test_no_texts_and_no_folder(tmp_path: Path) -> None:
    assert len(_open(tmp_path, Letters(), [])[0]) == 0
    assert _open(None, Letters())[0].argmax() == 0
