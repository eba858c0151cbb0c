"""Tokens of Label Studio's API: how they are sent, and the file that keeps them from one start to the next."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.errors import PaldaError, reason_of
from palda.io import replacing

if TYPE_CHECKING:
    from palda.live.store import Store

VARIABLE = "LABEL_STUDIO_API_KEY"
"""Environment variable of the token, as in Label Studio's own client."""

_LEGACY = re.compile(r"[0-9A-Fa-f]{20,128}")
_JWT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)


@dataclass(frozen=True)
class Secrets:
    """What a connection needs and the store must not hold."""

    token: str  # of Label Studio's API
    secret: str  # that Label Studio sends to the backend and with webhooks

    def __repr__(self) -> str:
        return "Secrets(...)"


def checked_token(text: str) -> str:
    """A token without blanks around it."""
    token = text.strip()
    if _LEGACY.fullmatch(token) or _JWT.fullmatch(token):
        return token
    raise PaldaError("this is no token of Label Studio; copy one from Account & Settings, Personal Access Token")


def is_personal(token: str) -> bool:
    """Whether a token is a personal access token, which must be exchanged for short-lived ones."""
    return _JWT.fullmatch(token) is not None


def claims(token: str) -> dict[str, Any]:
    """What a JSON Web Token says about itself, unchecked; empty if it cannot be read."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return found if isinstance(found, dict) else {}


def given_token(token: str | None, file: Path | None) -> str | None:
    """Token of the command line, of a file or of the environment, in this order."""
    if token is not None:
        return checked_token(token)
    if file is not None:
        return checked_token(file.read_text(encoding="utf-8"))
    found = os.environ.get(VARIABLE)
    return None if not found else checked_token(found)


def secret_hash(secret: str) -> str:
    """What the store holds of a secret. It has 256 random bits, so that guessing cannot reverse a plain hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class SecretsFile:
    """File with the secrets of a store's connections, readable by its owner alone.

    Parameters
    ----------
    store : Store
        The store. The file is beside an SQLite file; for a database server it is in the user's configuration folder.
    """

    def __init__(self, store: Store) -> None:
        if store.is_sqlite:
            path = Path(store.url.database or "")
            self.path = path.with_name(f"{path.name}.labelstudio")
        else:
            import typer

            name = hashlib.sha256(store.name.encode()).hexdigest()[:16]
            self.path = Path(typer.get_app_dir("palda")) / f"{name}.labelstudio"

    def read(self, connection: str) -> Secrets | None:
        """Secrets of a connection, named by its address and project."""
        found = self._all().get(connection)
        return None if found is None else Secrets(found["token"], found["secret"])

    def keep(self, connection: str, token: str) -> Secrets:
        """Store a token; the secret stays the same once it is chosen."""
        known = self._all()
        secret = known.get(connection, {}).get("secret") or secrets.token_urlsafe(32)
        self._write({**known, connection: {"token": token, "secret": secret}})
        return Secrets(token, secret)

    def forget(self, connection: str) -> None:
        """Remove a connection, and the file with the last one."""
        known = self._all()
        known.pop(connection, None)
        if known:
            self._write(known)
        else:
            self.path.unlink(missing_ok=True)

    def _all(self) -> dict[str, dict[str, str]]:
        try:
            if self.path.stat().st_mode & 0o077:
                self.path.chmod(0o600)
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise PaldaError(f"{self.path}: {reason_of(error)}; remove it and give the token again") from None
        is_known = isinstance(found, dict) and all(
            isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("token", "secret"))
            for one in found.values()
        )
        if not is_known:
            raise PaldaError(f"{self.path}: it holds something else; remove it and give the token again")
        known: dict[str, dict[str, str]] = found
        return known

    def _write(self, known: dict[str, dict[str, str]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replacing(self.path) as unfinished:
                unfinished.touch(0o600)
                unfinished.chmod(0o600)  # before it holds anything
                unfinished.write_text(json.dumps(known), encoding="utf-8")
        except OSError as error:
            raise PaldaError(f"{self.path}: {reason_of(error)}") from None
