from __future__ import annotations

import pytest
from kernelwright.core.text import first_line, wrong_field
from pydantic import BaseModel, ValidationError, model_validator


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n  \n  a reason.  \nand more", "a reason."),
        (ValueError("\nno such model.\nTraceback"), "no such model"),
        (ValueError(" \n"), "ValueError"),
        (ValueError("..."), "ValueError"),
    ],
)
def test_the_first_line_that_is_not_blank(text: str | Exception, line: str) -> None:
    assert first_line(text) == line


def test_a_line_is_cut_to_its_limit() -> None:
    assert first_line("a" * 100, 100) == "a" * 100
    assert first_line("a" * 101, 100) == "a" * 97 + "..."


class Sized(BaseModel):
    sizes: dict[str, int]

    @model_validator(mode="after")
    def _some(self) -> Sized:
        if not self.sizes:
            raise ValueError("there are no sizes")
        return self


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"sizes": {"a": "x"}}, "sizes.a: Input should be a valid integer"),
        ({"sizes": {}}, "there are no sizes"),
        ({}, "sizes: Field required"),
    ],
)
def test_the_field_that_does_not_fit_is_named(said: object, wrong: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Sized.model_validate(said)
    assert wrong_field(caught.value).startswith(wrong)
