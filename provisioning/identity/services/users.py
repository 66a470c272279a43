"""Users."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from provisioning.identity import announce
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.safeguard import keeping_an_administrator
from provisioning.identity.services.passwords import check_new_password


def ensure_user(
    domain: Domain, name: str, *, password: str | None = None, email: str = "", default_project: Project | None = None
) -> User:
    """Return the user of this name in the domain, made if absent; without a password a new one cannot sign in.

    What exists already is left as it is, its password too.
    """
    known = User.objects.filter(domain=domain, name=name).first()
    if known is not None:
        return known
    user = User(domain=domain, name=name, email=email, default_project=default_project)
    check_new_password(password)
    user.set_password(password)
    user.save(force_insert=True)
    return user


def update_user(user: User, *, email: str, description: str, default_project: Project | None) -> None:
    """Change what people read about the user, and where the user starts after signing in."""
    user.email, user.description, user.default_project = email, description, default_project
    user.save(update_fields=["email", "description", "default_project"])


@transaction.atomic
def set_user_enabled(user: User, *, enabled: bool) -> None:
    """Let the user in, or lock the user out and void every token."""
    with keeping_an_administrator():
        user.enabled = enabled
        if not enabled:
            user.tokens_valid_after = timezone.now()
        user.save(update_fields=["enabled", "tokens_valid_after"])
    if not enabled:
        announce.revoked(user_id=user.id)


@transaction.atomic
def revoke_all(user: User) -> None:
    """Void every token of the user: sign out everywhere."""
    user.tokens_valid_after = timezone.now()
    user.save(update_fields=["tokens_valid_after"])
    announce.revoked(user_id=user.id)


@transaction.atomic
def delete_user(user: User) -> None:
    """Remove the user; the tokens are worth nothing without it.  What the user made stays with the projects."""
    user_id = user.id
    with keeping_an_administrator():
        user.delete()
    announce.revoked(user_id=user_id)
