"""Files of the store: what is chosen, and what is not used and why."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from kernelwright.core import ResultsError
from kernelwright.deploy.models.packages import load_operator
from kernelwright.deploy.models.region import problem_source
from kernelwright.deploy.models.store import RegionStore, StoredRegion, default_folders

from .regions import entry, process, regions


@pytest.fixture(scope="module")
def found() -> StoredRegion:
    (region,) = regions(lambda x: x.sin() + 1, torch.randn(3))
    return entry(problem_source(region, ["a region of a test"]))


def written(folder: Path, item: StoredRegion) -> Path:
    return RegionStore([folder]).add(item)


def find_entry(*folders: Path, key: str) -> tuple[Path | None, list[str]]:
    """What is chosen for a key, and what is said."""
    messages: list[str] = []
    file = RegionStore(folders, report=messages.append).find(key)
    return (file.path if file is not None else None), messages


def test_an_entry_is_readable_text_and_comes_back(tmp_path: Path, found: StoredRegion) -> None:
    path = written(tmp_path / "new" / "store", found)
    text = path.read_text()
    assert path.name.startswith(found.key) and hashlib.sha256(text.encode()).hexdigest() in path.name
    assert "\n  def forward(self, x0: 'float32[3]'):" in text.replace("      def", "  def")
    assert "    class ModelNew(torch.nn.Module):\n" in text  # a block of lines, not a quoted string
    (file,) = RegionStore([path.parent]).files()
    assert file.entry == found and not file.problem
    assert written(path.parent, found) == path  # the same entry is the same file


def test_the_first_folder_comes_first_and_there_the_largest_gain(tmp_path: Path, found: StoredRegion) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    slow = written(own, found.model_copy(update={"latency_ms": 1.5}))
    fast = written(own, found)
    faster = written(shared, found.model_copy(update={"latency_ms": 0.1}))
    assert find_entry(own, shared, key=found.key) == (fast, [])
    assert find_entry(shared, own, key=found.key) == (faster, [])
    assert find_entry(tmp_path / "missing", shared, key=found.key) == (faster, [])
    fast.unlink()
    assert find_entry(own, key=found.key) == (slow, [])
    assert find_entry(own, key="0" * 32) == (None, [])


def test_a_folder_that_is_read_only_serves(tmp_path: Path, found: StoredRegion) -> None:
    path = written(tmp_path / "shared", found)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert find_entry(path.parent, key=found.key) == (path, [])
    finally:
        path.parent.chmod(0o755)


def test_damaged_and_forged_entries_are_not_used(tmp_path: Path, found: StoredRegion) -> None:
    path = written(tmp_path, found)
    text = path.read_text()
    for content, message in (
        (text.replace("sin", "cos"), "its content is not what its name says, so it is damaged or forged"),
        (text[:100], "its content is not what its name says"),
        ("", "its content is not what its name says"),
    ):
        path.write_text(content)
        chosen, messages = find_entry(tmp_path, key=found.key)
        assert chosen is None and len(messages) == 1 and message in messages[0]
    path.unlink()
    for content, message in (  # whoever changes a text can give it the right name, too
        (text.replace("sin.default", "cos.default"), "it is for another region than its name says"),
        ("format: 1\n", "Field required"),
        ("a: [", "line 2: "),
        ("\0", ""),
        (text.replace("  region_0: |", "  ../region_0: |"), "String should match pattern"),
        (text.replace("format: 1", "format: 2"), "format: Input should be 1"),
    ):
        digest = hashlib.sha256(content.encode()).hexdigest()
        forged = tmp_path / f"{found.key}-{digest}.yaml"
        forged.write_text(content)
        chosen, messages = find_entry(tmp_path, key=found.key)
        assert chosen is None and len(messages) == 1
        assert str(forged) in messages[0] and message in messages[0]
        forged.unlink()


def test_an_entry_without_an_interval_is_not_used(tmp_path: Path, found: StoredRegion) -> None:
    """As entries of an earlier version have none."""
    path = written(tmp_path, found.model_copy(update={"gain_interval": None}))
    says = f"{path} is not used: it states no interval of its gain; optimize the region again"
    assert find_entry(tmp_path, key=found.key) == (None, [says])
    (file,) = RegionStore([tmp_path]).files()
    assert not file.damaged


def test_an_entry_that_anyone_may_write_is_not_used(tmp_path: Path, found: StoredRegion) -> None:
    path = written(tmp_path, found)
    path.chmod(0o666)
    assert find_entry(tmp_path, key=found.key) == (None, [f"{path} is not used: anyone may write it; chmod o-w {path}"])
    path.chmod(0o644)
    tmp_path.chmod(0o777)  # where anyone may add one
    message = f"{path} is not used: anyone may write its folder; chmod o-w {tmp_path}"
    assert find_entry(tmp_path, key=found.key) == (None, [message])


def test_entries_of_other_versions_and_devices_are_not_used(tmp_path: Path, found: StoredRegion) -> None:
    here = torch.__version__
    path = written(tmp_path / "old", found.model_copy(update={"versions": {"torch": "2.8.0"}}))
    message = f"it was measured with torch 2.8.0, here {here}; optimize the region again"
    assert find_entry(path.parent, key=found.key) == (None, [f"{path} is not used: {message}"])
    path = written(tmp_path / "none", found.model_copy(update={"versions": {"nothing": "1.0"}}))
    assert "nothing 1.0, here none" in find_entry(path.parent, key=found.key)[1][0]
    path = written(tmp_path / "empty", found.model_copy(update={"versions": {"": "1.0"}}))
    assert "it was measured with  1.0, here none" in find_entry(path.parent, key=found.key)[1][0]
    other = entry(found.problem, device="cuda sm_90")
    assert other.key != found.key
    path = written(tmp_path / "gpu", other)
    if not torch.cuda.is_available():
        assert "it is for cuda sm_90, here is no GPU" in find_entry(path.parent, key=other.key)[1][0]


def test_a_full_disk_leaves_nothing(tmp_path: Path, found: StoredRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ResultsError, match="No space left on device; free space there, or set KERNELWRIGHT_STORE"):
        written(tmp_path, found)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ResultsError, match="No space left on device; free space there, or set KERNELWRIGHT_CACHE"):
        load_operator(found, f"{found.key}-{'f' * 64}")


WRITER = """
import sys
from pathlib import Path
from kernelwright.deploy.models.store import RegionStore, StoredRegion

text = Path("entry.json").read_text()
for number in range(100):
    item = StoredRegion.model_validate_json(text)
    RegionStore([Path("store")]).add(item.model_copy(update={"latency_ms": 1.0 + number % 2}))
"""


def test_two_writers_do_not_disturb_each_other(tmp_path: Path, found: StoredRegion) -> None:
    from concurrent.futures import ThreadPoolExecutor

    (tmp_path / "entry.json").write_text(found.model_dump_json())
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda number: process(WRITER, tmp_path), range(2)))
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    files = list(RegionStore([tmp_path / "store"]).files())
    assert [file.problem for file in files] == ["", ""]
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == sorted(f"{file.name}.yaml" for file in files)


def test_names_may_be_shortened(tmp_path: Path, found: StoredRegion) -> None:
    path = written(tmp_path, found)
    written(tmp_path, found.model_copy(update={"latency_ms": 1.5}))
    store = RegionStore([tmp_path])
    assert (file := store.named(path.stem)) is not None and file.path == path
    assert store.named("f" * 40) is None
    with pytest.raises(ResultsError, match="2 entries of the store begin with"):
        store.named(found.key)


def test_folders_come_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_STORE", "/a:/b")
    assert default_folders() == (Path("/a"), Path("/b"))
    monkeypatch.delenv("KERNELWRIGHT_STORE")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", "/c")
    assert default_folders() == (Path("/c/store"),)


def test_an_operator_of_an_entry_computes_and_is_written_anew_if_changed(
    tmp_path: Path, found: StoredRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    path = written(tmp_path / "store", found)
    x = torch.randn(3)
    torch.testing.assert_close(load_operator(found, path.stem)(x), x.sin() + 1)
    import sys

    (folder,) = (tmp_path / "regions").iterdir()
    del sys.modules[folder.name]
    kernel = folder / "kernels" / "region_0.py"
    right = kernel.read_text()
    kernel.write_text(right.replace("sin", "cos"))
    load_operator(found, path.stem)
    assert kernel.read_text() == right
