"""Writes the report of a project: ``python -m palda.live.report_file PROJECT FILE [votes]``, store in ``PALDA_STORE``.

With "votes" it shows who voted what on the documents.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

from sqlalchemy import select

from palda.errors import PaldaError
from palda.live.labelstudio.prelabels import COLUMNS, NOTE, prelabel_influence
from palda.live.schema import document
from palda.live.service.exports import STORE_VARIABLE, model_parts
from palda.live.service.projects import project
from palda.live.store import open_store


def main(project_id: int, path: Path, *, has_votes: bool) -> None:
    """Write the report."""
    from palda.estimators import CrowdPALDA, load
    from palda.report import TableView, write_report

    with closing(open_store(os.environ.pop(STORE_VARIABLE), as_learner=True)) as store:
        title = project(store, project_id).name
        texts = select(document.c.name, document.c.text).where(document.c.project_id == project_id)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "model.palda")
            with file.open("wb") as stream:
                stream.writelines(model_parts(store, project_id))
            model = load(file)
        if not isinstance(model, CrowdPALDA):
            raise PaldaError("the stored model is of another kind; it is replaced by the next fit")
        found = dict(store.read(lambda connection: connection.execute(texts).all()))
        influence = store.read(partial(prelabel_influence, project_id=project_id))
    tables = []
    if influence is not None:
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in influence.rows()]
        tables.append(
            TableView(dict.fromkeys(COLUMNS, ""), rows, "Influence of pre-labels", (influence.summary(), NOTE))
        )
    votes = model.current_votes() if has_votes else None
    write_report(model, path, texts=found, votes=votes, title=title, tables=tables, force=True)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), Path(sys.argv[2]), has_votes=sys.argv[3:] == ["votes"])
    except PaldaError as error:
        sys.exit(str(error))
