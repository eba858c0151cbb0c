"""The examples in the docstrings of the public functions run and print what they say."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from palda import metrics, simulate


def public_functions(module: ModuleType) -> dict[str, Callable[..., object]]:
    return {name: value for name in module.__all__ if callable(value := getattr(module, name))}


@pytest.mark.parametrize("module", [metrics, simulate])
def test_every_public_function_has_an_example(module: ModuleType) -> None:
    functions = {name: value for name, value in public_functions(module).items() if not isinstance(value, type)}
    without = [name for name, function in functions.items() if ">>>" not in (function.__doc__ or "")]
    assert without == ["Measure"] * ("Measure" in without)  # a type alias


@pytest.mark.parametrize("module", [metrics, simulate])
def test_the_examples_of_public_functions_run(module: ModuleType) -> None:
    runner = doctest.DocTestRunner()
    with np.printoptions(legacy=False):
        for name, function in public_functions(module).items():
            for example in doctest.DocTestFinder(recurse=False).find(function, name, globs={}):
                runner.run(example)
    assert runner.failures == 0
    assert runner.tries > len(module.__all__)
