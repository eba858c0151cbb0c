"""The server of ``palda serve``: store, service, learner, web API and pages. Needs the extra ``palda[live]``."""

from __future__ import annotations
