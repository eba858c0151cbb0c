"""The examples in the docstrings of public functions run and print what they say."""

from __future__ import annotations

import doctest
import inspect
from types import ModuleType

import pytest

from palda import metrics, planning, simulate

FUNCTIONS = [
    pytest.param(module, name, id=f"{module.__name__}.{name}")
    for module in (metrics, planning, simulate)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
]


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_a_public_function_has_an_example_that_runs(module: ModuleType, name: str) -> None:
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder(recurse=False).find(getattr(module, name), name, globs={}):
        runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0
