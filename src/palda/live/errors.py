"""Errors of the service. The web API answers with their status codes; the message is one line for the user."""

from __future__ import annotations

from palda.errors import PaldaError


class ServiceError(PaldaError):
    """A request that the service refuses."""

    status = 400


class InvalidRequestError(ServiceError):
    """The request makes no sense: an unknown class, a name that is too long."""

    status = 422


class NotSignedInError(ServiceError):
    """No credential, or one that has expired or was revoked."""

    status = 401


class NotAllowedError(ServiceError):
    """The person's role does not allow it."""

    status = 403


class NotFoundError(ServiceError):
    """It does not exist, or the person is not a member of its project."""

    status = 404


class ConflictError(ServiceError):
    """It contradicts what is stored: a name that is taken, a client id with another body."""

    status = 409


class TooManyRequestsError(ServiceError):
    """More requests per second than one credential may send."""

    status = 429


class StoreError(ServiceError):
    """The store cannot be read or written now: full disk, read-only file, lost connection."""

    status = 503
