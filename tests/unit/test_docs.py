"""Snippets and commands of the README and the guides run, page by page; what pages name exists."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from tests.live.fake_labelstudio import LEGACY, label_studio

from palda import CrowdPALDA, Votes, simulate
from palda.cli import app, main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
]
LONG_PAGES = {  # run by make test-long
    "planning.md", "server.md", "labelling-project.md", "labelstudio-live.md", "scale.md", "adaptive.md",
    "embeddings.md", "label_studio.md", "crowds.md", "from_majority_vote.md",
}  # fmt: skip
ARCHITECTURE, MATHS = ROOT / "docs" / "architecture.md", ROOT / "docs" / "maths.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
DEMO_TEXTS = 45
N_TEXTS = 52  # a classifier is trained from 50 texts on
ACCURACIES = np.linspace(0.97, 0.999, 8)  # with accurate annotators training takes few turns
MAJORITY_GUIDE_WITHIN = 0.02  # other processors and libraries round differently


@pytest.fixture
def user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages read."""
    news = simulate.newsroom(N_TEXTS, seed=3)
    votes, _ = simulate.crowd(news, ACCURACIES, votes_per_doc=3, seed=3)
    texts = pd.DataFrame({"doc": news.doc_ids, "text": news.documents.texts})
    texts.to_csv(tmp_path / "documents.csv", index=False)
    votes.to_frame().to_csv(tmp_path / "votes.csv", index=False)
    votes.to_frame().to_csv(tmp_path / "votes.csv.gz", index=False)
    broken = "doc,annotator,label,value\nnews-0001,a,arts,1\nnews-0002,a,arts,maybe\n"
    (tmp_path / "broken.csv").write_text(broken)
    texts.to_parquet(tmp_path / "new.parquet")
    vectors = (news.labels[:, :4] + np.random.default_rng(0).normal(size=(N_TEXTS, 4))).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    pd.DataFrame({"doc": news.doc_ids, "vector": list(vectors)}).to_parquet(tmp_path / "features.parquet")
    (tmp_path / "ids.txt").write_text("\n".join(news.doc_ids))
    with gzip.open(tmp_path / "new.jsonl.gz", "wt") as lines:
        texts.to_json(lines, orient="records", lines=True)
    _write_answers(tmp_path, dict(texts.itertuples(index=False)), votes)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write_answers(folder: Path, texts: dict[str, str], votes: Votes) -> None:
    """The same votes as an export of Label Studio, and as a table with everything in every row."""
    looks = votes.to_frame().groupby(["doc", "annotator"], observed=True)
    answers = [(*key, look["label"][look["value"] == 1].tolist()) for key, look in looks]
    tasks = [
        {
            "id": name,
            "data": {"text": text},
            "annotations": [
                {"completed_by": who, "result": [{"from_name": "topics", "value": {"choices": labels}}]}
                for doc, who, labels in answers
                if doc == name
            ],
        }
        for name, text in texts.items()
    ]
    (folder / "export.json").write_text(json.dumps(tasks))
    rows = [(doc, texts[doc], who, json.dumps(labels), "none") for doc, who, labels in answers]
    table = pd.DataFrame(rows, columns=["item", "sentence", "who", "labels", "comment"])
    table.to_csv(folder / "answers.csv", index=False)


def run_command(line: str) -> None:
    """Run a line of a shell snippet; every ``palda`` of a pipe runs in this process, everything else in a shell."""
    line = line.replace("http://localhost:8080", os.environ.get("PALDA_TEST_STUDIO", "http://localhost:8080"))
    if shutil.which("jq") is None:
        line = re.sub(r"\| jq .*", "", line)
    parts = [part.strip() for part in re.split(r"\|(?=(?:[^']*'[^']*')*[^']*$)", line)]  # no | inside of quotes
    piped: bytes | None = None
    is_following = line.startswith("palda labelstudio connect") and "--dry-run" not in line
    if is_following or (line.startswith("palda serve") and "--backup" not in line and "--restore" not in line):
        run_server(line)
        return
    for part in parts[:-1]:
        piped = run_palda(part, piped) if part.startswith("palda ") else run_in_shell(part, piped)
    if parts[-1].startswith("palda "):
        sys.stdout.write(run_palda(parts[-1], piped).decode())
    else:
        assert len(parts) > 1, f"not a palda command: {line}"
        run_in_shell(parts[-1], piped)


def run_server(line: str) -> None:
    """Start a server on a free port and end it when it serves; a URL of a database becomes a file."""
    words = [re.sub(r"^postgresql://.*", "labels.db", word) for word in shlex.split(line, comments=True)[1:]]
    command = [sys.executable, "-m", "palda", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        first = server.stdout.readline()
        server.terminate()
        assert server.wait(60) == 0, line
    assert json.loads(first)["admin_token"] if "--json" in words else first.startswith("palda serves at http://")


def run_in_shell(command: str, given: bytes | None) -> bytes:
    done = subprocess.run(["sh", "-c", command], input=given, capture_output=True, check=True)  # noqa: S603, S607
    return done.stdout


def run_palda(command: str, given: bytes | None) -> bytes:
    """Standard output of a command, given its standard input."""
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(written):
        patch.setattr(sys, "argv", shlex.split(command, comments=True))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given or b"")))
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, command
    written.flush()
    assert isinstance(written.buffer, io.BytesIO)
    return written.buffer.getvalue()


@pytest.fixture
def studio(user_files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A small Label Studio at the address of the guide."""
    with label_studio() as found:
        for task in [found.add_task(f"text {number}") for number in range(12)]:
            found.annotate(task, 2, "crime")
        (user_files / "token.txt").write_text(LEGACY)
        monkeypatch.setenv("PALDA_TEST_STUDIO", found.url)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", LEGACY)
        yield


FITTED: dict[tuple[str, ...], dict[str, Any]] = {}
"""State of models that pages have fitted, by data and settings. A fit depends on nothing else, so it is run once."""


@pytest.fixture
def shared_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that fit the same model to the same data in memory share one fit."""
    fit = CrowdPALDA.fit

    def fit_once(model: CrowdPALDA, X: Any, votes: Any = None, *more: Any, **options: Any) -> CrowdPALDA:
        counts = getattr(X, "counts", X)
        shareable = isinstance(votes, Votes) and hasattr(counts, "indptr") and model.engine is None
        unshared = more or "annotator_prior" in options or options.get("features") is not None
        if not shareable or not isinstance(model.label_prior, str) or unshared:
            return fit(model, X, votes, *more, **options)
        gold = np.asarray(options.get("gold"), dtype=float)  # NaN if there is none
        arrays = [
            counts.indptr,
            counts.indices,
            counts.data,
            votes.doc,
            votes.annotator,
            votes.label,
            votes.value,
            votes.probability,
            votes.time,
            gold,
        ]
        names = [*votes.doc_ids, *votes.annotators, *votes.classes, *votes.annotator_kinds, *votes.annotator_families]
        settings = {name: value for name, value in options.items() if name not in ("gold", "checkpoint", "features")}
        key = (
            type(X).__name__,
            hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest(),
            repr((counts.shape, names, model.get_params(), settings)),
        )
        if key not in FITTED:
            fit(model, X, votes, **options)
            FITTED[key] = dict(vars(model))
        vars(model).update(FITTED[key])
        return model

    monkeypatch.setattr(CrowdPALDA, "fit", fit_once)


@pytest.mark.guide
@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.long] if page.name in LONG_PAGES else [], id=page.name)
        for page in PAGES
        if BLOCK.search(page.read_text())
    ],
)
def test_snippets_of_a_page_run_in_order(
    page: Path,
    user_files: Path,
    shared_fits: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if page.name == "labelstudio-live.md":
        request.getfixturevalue("studio")
    monkeypatch.setattr("palda.cli.commands.demo.N_DOCS", DEMO_TEXTS)
    monkeypatch.setattr("palda.cli.commands.plan.QUICK_DOCS", N_TEXTS)
    names: dict[str, object] = {"np": np}
    for language, snippet in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(compile(snippet, str(page), "exec"), names)  # noqa: S102 - our own documentation
        else:
            for line in filter(str.strip, snippet.splitlines()):
                run_command(line)
    printed = capsys.readouterr().out
    if page.name == "data.md":
        assert "broken.csv, row 3, column 'value': 'maybe' is not 0, 1 or blank" in printed
    if page.name == "from_majority_vote.md":
        _check_majority_table(page.read_text(), printed)


def _check_majority_table(text: str, printed: str) -> None:
    """The guide's table shows what its snippets print."""
    shown = [float(cell) for row in re.findall(r"\| (\.\d{3}) \| (\.\d{3}) \|", text) for cell in row]
    measured = [float(number) for number in re.findall(r"^(?:labels|classifier) +([\d.]+)$", printed, re.MULTILINE)]
    assert len(shown) == 6
    assert measured[:6] == pytest.approx(shown, abs=MAJORITY_GUIDE_WITHIN)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_named_in_a_page_exist_with_their_options(page: Path) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, rest in re.findall(r"`palda ([a-z]+)([^`]*)`", page.read_text()):
        assert name in commands
        command, words = commands[name], rest.split()
        if words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words[0]]
        known = {"--help"} | {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"(?<!\w)--[a-z-]+", rest)) <= known, f"palda {name}{rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_and_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.guide
def test_the_picture_of_the_crowd_is_drawn_by_its_script(
    tmp_path: Path, shared_fits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palda.cli.commands.demo.N_DOCS", DEMO_TEXTS)
    monkeypatch.setenv("MPLBACKEND", "svg")
    script = tmp_path / "newsroom.py"
    script.write_text((ROOT / "docs" / "pictures" / "newsroom.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    assert "</svg>" in (tmp_path / "newsroom.svg").read_text()


@pytest.mark.browser
@pytest.mark.guide
@pytest.mark.parametrize("name", ["report", "annotators"])
@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_the_picture_of_the_report_is_taken_by_its_script(
    tmp_path: Path, shared_fits: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("playwright.sync_api", reason="the picture needs playwright: pip install playwright")
    if not (os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("no Chromium found: install one, or name it in PALDA_CHROMIUM")
    monkeypatch.setattr("palda.cli.commands.demo.N_DOCS", DEMO_TEXTS)
    script = tmp_path / f"{name}.py"
    script.write_text((ROOT / "docs" / "pictures" / f"{name}.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (ROOT / "docs" / "pictures" / f"{name}.png").stat().st_size < 300_000


@pytest.mark.browser
@pytest.mark.guide
@pytest.mark.long
def test_the_pictures_of_the_server_are_taken_by_their_script(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="the pictures need playwright: pip install playwright")
    pytest.importorskip("fastapi", reason="the server is not installed: pip install 'palda[live]'")
    if not (os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("no Chromium found: install one, or name it in PALDA_CHROMIUM")
    script = tmp_path / "labelling.py"
    script.write_text((ROOT / "docs" / "pictures" / "labelling.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    for name in ("labelling-label", "labelling-dashboard", "labelling-adjudicate"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (ROOT / "docs" / "pictures" / f"{name}.png").stat().st_size < 300_000


def named_in_code(page: Path) -> list[str]:
    """Text between backticks, outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE))


def test_modules_and_functions_of_the_architecture_page_exist() -> None:
    names = [name for name in named_in_code(ARCHITECTURE) if re.fullmatch(r"palda(\.\w+)+", name)]
    assert len(names) > 40
    for name in names:
        module, *attributes = name.split(".")
        found: Any = importlib.import_module(module)
        for attribute in attributes:
            module = f"{module}.{attribute}"
            if not hasattr(found, attribute):
                importlib.import_module(module)
            found = getattr(found, attribute)


def test_files_of_the_architecture_page_exist() -> None:
    names = [name for name in named_in_code(ARCHITECTURE) if re.fullmatch(r"\w+(/\w+)+(\.py)?", name)]
    assert len(names) > 20
    missing = [name for name in names if not ((ROOT / "src" / "palda" / name).exists() or (ROOT / name).exists())]
    assert not missing


def test_the_architecture_page_has_the_layers_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "Ten layers")
    rows = re.findall(r"^\| \d+ \| (.+?) \|", ARCHITECTURE.read_text(), re.MULTILINE)
    assert [set(re.findall(r"palda\.\w+", row)) for row in rows] == [set(layer.split(" | ")) for layer in layers]


def test_names_of_the_mathematics_page_occur_in_the_code() -> None:
    code = [name for name in named_in_code(MATHS) if not name.startswith("tests/")]
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = {word for name in code for word in re.findall(r"[A-Za-z]\w{2,}", name)}
    assert len(named) > 40
    assert named - {"py"} <= set(re.findall(r"\w+", source)) | {path.stem for path in (ROOT / "src").rglob("*.py")}


def test_benchmarks_that_pages_name_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"python -m benchmarks (\w+)", page.read_text())}
    assert named
    assert all((ROOT / "benchmarks" / f"{name}.py").exists() for name in named)
