"""What every way of retrieving examples promises: the published suite; and the reasons that ours gives."""

from __future__ import annotations

import pytest
from kernelwright.core import Query, Target
from kernelwright.core.languages import TRITON
from kernelwright.rag import ExampleRetriever
from kernelwright.testing import RetrieverSuite
from kernelwright.testing.retriever import MakeRetriever, shipped

from ..rag.models import embedder
from ..surroundings import example_vectors


class OwnSuite(RetrieverSuite):
    def test_reasons_are_given(self, create: MakeRetriever) -> None:
        query = Query("online softmax", TRITON, Target.CUDA, operation="softmax", category="memory")
        why = create(shipped()).search(query, 1)[0].why
        assert "also softmax" in why and "in triton" in why and "cures a memory bottleneck" in why


class TestByWords(OwnSuite):
    @pytest.fixture
    def create(self) -> MakeRetriever:
        return lambda examples: ExampleRetriever(examples, None)


class TestWithEmbeddings(OwnSuite):
    @pytest.fixture
    def create(self) -> MakeRetriever:
        return lambda examples: ExampleRetriever(examples, embedder(), example_vectors())
