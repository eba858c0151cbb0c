"""What can go wrong with the other server; messages are one line and never hold a token."""

from __future__ import annotations

from palda.errors import PaldaError


class RemoteError(PaldaError):
    """Label Studio refuses a request."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(RemoteError):
    """Label Studio does not answer now; the same request may succeed later, after ``wait`` seconds if it says so."""

    def __init__(self, message: str, status: int = 0, wait: float = 0.0) -> None:
        super().__init__(message, status)
        self.wait = wait
