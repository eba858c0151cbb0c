"""Without a writable folder for Numba's cache, kernels are compiled in every process, with one warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palda import kernels
from palda.kernels import compilation

pytestmark = pytest.mark.slow

# A process in which only NUMBA_CACHE_DIR may hold the cache, as if neither the package's folder nor the home folder
# were writable: tests may run as a superuser, who can write anywhere. One small kernel is enough, because compiling all
# of them takes long.
SCRIPT = """
import warnings
from concurrent.futures import ThreadPoolExecutor
from numba.core import caching
caching.CacheImpl._locator_classes = caching.CacheImpl._locator_classes[:1]
import numpy as np
from palda import kernels
with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(4) as pool:
    warnings.simplefilter("always")
    modules = list(pool.map(lambda _: kernels.active(), range(4)))
assert len(set(modules)) == 1
result = modules[0].explain_away(
    kernels.Bags(np.array([0, 1]), np.array([0], np.int32), np.ones(1)),
    np.zeros((1, 1)),
    np.ones(1),
    kernels.ClassWordProbs(np.full((1, 1), 0.5), np.full((1, 1), 0.25)),
    kernels.PassLimits(5, 1e-4),
)
np.testing.assert_allclose(result.evidence, np.log(2.0))
print([f"{w.category.__name__}: {w.message}" for w in seen])
from numba import config
print(config.CACHE_DIR)
"""


def run(script: str, tmp_path: Path, cache_folder: str) -> list[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache_folder, "HOME": cache_folder, "TMPDIR": str(tmp_path)}
    environment.pop("PALDA_KERNEL", None)
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder without write permission")
def test_kernels_compile_and_warn_once_when_no_cache_folder_can_be_written(tmp_path: Path) -> None:
    nowhere = "/proc/palda-no"
    warned, setting_after = run(SCRIPT, tmp_path, nowhere)
    assert warned.count("PaldaWarning") == 1
    assert "set NUMBA_CACHE_DIR to a writable folder" in warned
    assert setting_after == nowhere, "the setting of other packages must not change"
    assert not list(tmp_path.glob("palda-numba-*")), "the temporary cache must be removed"


def test_other_import_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise RuntimeError("something else")

    monkeypatch.setenv("PALDA_KERNEL", "compiled")
    monkeypatch.setattr(kernels, "import_module", fail)
    with pytest.raises(RuntimeError, match="something else"):
        kernels.active()


def test_another_version_of_numba_compiles_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_KNOWN_NUMBA", ("0.0.",))
    assert compilation._linking_compiler() == {}
