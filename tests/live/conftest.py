from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.page_server import PageServer
from tests.live.watched import running_browser
from tests.live.world import MANY, Served, World, make_world, serving

from palda.live.web import create_app


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A store with two projects and people of every role."""
    made = make_world(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def url(world: World) -> Iterator[str]:
    """URL of a server of the world, without limits on rates."""
    with serving(create_app(world.store, limits=MANY)) as address:
        yield address


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A world that the tests of a module share: they add to it and take nothing away."""
    made = make_world(tmp_path_factory.mktemp("shared"))
    with serving(create_app(made.store, limits=MANY)) as address:
        yield Served(made, address)
    made.store.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of a module."""
    with running_browser() as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    """A server of pages without a learner: tests write what it would have found."""
    running = PageServer(tmp_path / "project.db")
    yield running
    running.close()
