"""The server's web API and pages over the service."""

from __future__ import annotations

from palda.live.web.app import create_app
from palda.live.web.running import run

__all__ = ["create_app", "run"]
