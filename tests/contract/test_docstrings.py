"""Docstrings of public names: their examples run, and their parameters are those of the code."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import pytest

from palda import PALDA, Aggregation, Checkpoint, CrowdPALDA, TextEmbedding, aggregate, load, simulate

ADAPTIVE = [CrowdPALDA.update, CrowdPALDA.assign, CrowdPALDA.stopping_report]
WITH_EXAMPLES = [PALDA, CrowdPALDA, aggregate, Checkpoint, load, TextEmbedding]
METHODS = ["as_published", "fit", "partial_fit", "predict_proba", "predict", "transform", "explain", "score", "save"]
SECTION = re.compile(r"^ *Parameters\n *-+\n(.*?)(?=^ *[A-Z][A-Za-z ]+\n *-+$|\Z)", re.DOTALL | re.MULTILINE)
CALLABLES: dict[str, Any] = {
    **{name.__name__: name for name in WITH_EXAMPLES},
    **{f"{kind.__name__}.{name}": getattr(kind, name) for kind in (PALDA, CrowdPALDA) for name in METHODS},
    "CrowdPALDA.consensus": CrowdPALDA.consensus,
    "CrowdPALDA.suggest": CrowdPALDA.suggest,
    **{f"CrowdPALDA.{name}": getattr(CrowdPALDA, name) for name in ("update", "assign", "stopping_report")},
    "Aggregation.to_frame": Aggregation.to_frame,
}


@pytest.mark.guide
@pytest.mark.parametrize("documented", [*WITH_EXAMPLES, *ADAPTIVE], ids=lambda documented: documented.__name__)
def test_examples_of_docstrings_run(documented: Any) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(documented, documented.__name__):
        runner.run(test)
    assert runner.tries > 0, "no example"
    assert runner.failures == 0


@pytest.mark.parametrize("name", CALLABLES)
def test_docstrings_list_all_parameters_in_order(name: str) -> None:
    section = SECTION.search(inspect.getdoc(CALLABLES[name]) or "")
    assert section is not None, "no section of parameters"
    listed = re.findall(r"^\**(\w+)(?: : .+)?$", section.group(1), re.MULTILINE)
    taken = [parameter for parameter in inspect.signature(CALLABLES[name]).parameters if parameter != "self"]
    assert listed == taken


@pytest.mark.parametrize("kind", [PALDA, CrowdPALDA])
def test_docstrings_state_the_defaults_of_parameters(kind: type) -> None:
    text = inspect.getdoc(kind) or ""
    for name, parameter in inspect.signature(kind).parameters.items():
        stated = re.search(rf"^{name} : .*default=(.+)$", text, re.MULTILINE)
        assert stated is not None, name
        assert stated.group(1) == repr(parameter.default).replace("'", '"')


@pytest.mark.parametrize("kind", [PALDA, CrowdPALDA])
def test_every_fitted_attribute_is_documented(kind: type) -> None:
    world = simulate.documents(60, 2, 2, 15, seed=0, doc_length=12)
    votes, _ = simulate.crowd(world, [0.9, 0.8, 0.7], seed=0, votes_per_doc=2)
    model = kind(2, tol=0.1, random_state=0, n_jobs=1).fit(world.corpus, world.labels if kind is PALDA else votes)
    text = (inspect.getdoc(PALDA) or "") + (inspect.getdoc(kind) or "")
    fitted = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    listed = [name for name in fitted if re.search(rf"^.*\b{name}\b.* : ", text, re.MULTILINE)]
    assert [name for name in fitted if name not in listed and not inspect.getdoc(getattr(kind, name, None))] == []
