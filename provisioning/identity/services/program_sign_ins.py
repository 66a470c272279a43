"""Authentication with application credentials."""

from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.lockout import throttle
from provisioning.identity.models import ApplicationCredential, User
from provisioning.identity.selectors.application_credentials import application_credential_by
from provisioning.identity.selectors.lookups import record_by
from provisioning.identity.services.application_credentials import check_secret
from provisioning.identity.services.passwords import typed_name

AT_ONCE = 20
"""Maximum number of concurrent attempts with one credential from one address; programs authenticate in parallel."""


def authenticate_application_credential(
    *,
    credential_id: str | None = None,
    name: str | None = None,
    user_id: str | None = None,
    user_name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
    secret: str,
    source: str,
) -> ApplicationCredential:
    """Return the application credential with this secret, with its user and project.

    The credential is specified by id, or by name and user (by id, or by name and domain). An unknown credential, a
    wrong secret, an expired credential and a disabled user raise the same NotAuthenticatedError after the same work.
    Raises TooManyAttemptsError while the client must wait.
    """
    throttle.check_address(source)
    typed = typed_name(user_id, user_name, domain_id, domain_name)
    typed = f"credential {credential_id.replace('-', '').lower()}" if credential_id else f"credential {name} of {typed}"
    found: ApplicationCredential | None = None
    if "\0" in typed:  # PostgreSQL rejects it in queries
        found = None
    elif credential_id is not None:
        found = application_credential_by(credential_id=credential_id)
    else:
        user = record_by(User, record_id=user_id, name=user_name, domain_id=domain_id, domain_name=domain_name)
        found = application_credential_by(user=user, name=name) if user is not None else None
    with throttle.Attempt(typed, source, at_once=AT_ONCE) as attempt:
        right = check_secret(found, secret)
        if found is None or not right or not _is_open(found):
            raise NotAuthenticatedError(REFUSED)
        attempt.succeeded()
    return found


def _is_open(record: ApplicationCredential) -> bool:
    current = record.expires_at is None or record.expires_at > timezone.now()
    return current and record.user.enabled and record.user.domain.enabled
