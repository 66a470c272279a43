"""Creation of many users. Passwords are hashed before the transaction, which would otherwise block other requests."""

from provisioning.identity.models import LONG, Domain, Project, User
from provisioning.identity.services.checks import check_name, check_text, one_of_its_name
from provisioning.identity.services.passwords import assign_password
from provisioning.identity.services.users import LONGEST_EMAIL


def prepare_user(domain: Domain, name: str, *, password: str | None, email: str = "") -> User:
    """Return an unsaved user with the hash of the password. Uses no database, so that threads can run it in parallel.

    Raises InvalidInputError for an invalid field.
    """
    user = User(domain=domain, name=check_name(name, LONG), email=check_text(email, "email", LONGEST_EMAIL))
    assign_password(user, password, by_admin=True)
    return user


def store_user(user: User, *, default_project: Project | None = None) -> None:
    """Save a prepared user.  Raises ConflictError if the name exists in the domain."""
    user.default_project = default_project
    with one_of_its_name(User, domain=user.domain, name=user.name):
        user.save(force_insert=True)
