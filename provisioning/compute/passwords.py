"""Passwords of guests: made for a launch, kept until the guest has it, and forgotten."""

import secrets
import string
import uuid

from cryptography.fernet import Fernet, InvalidToken

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.compute.services.instances import write
from provisioning.identity import keys
from provisioning.identity.encrypted import renewed

MOST = 1024
"""Characters of a password that a guest posts, encrypted, as in Nova."""
LENGTH = 12
"""Characters of a password that is made here, as in Nova."""
_KINDS = (string.ascii_uppercase, string.ascii_lowercase, "23456789")


def generate_password() -> str:
    """Return a random password with a capital, a small letter and a digit in it."""
    letters = [secrets.choice(kind) for kind in _KINDS]
    letters += [secrets.choice("".join(_KINDS)) for _ in range(LENGTH - len(letters))]
    secrets.SystemRandom().shuffle(letters)
    return "".join(letters)


def sealed(password: str | None) -> str:
    """Return a password as it is kept; nothing for none."""
    return keys.CREDENTIALS.current().encrypt(password.encode()).decode() if password else ""


def opened(instance: Instance) -> str | None:
    """Return the password that an instance is to be built with; None when there is none, or when its key is gone."""
    if not instance.admin_password:
        return None
    try:
        return keys.CREDENTIALS.current().decrypt(instance.admin_password.encode()).decode()
    except InvalidToken:
        return None


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the passwords that servers are to be built with again, with this key (``identity.encrypted``)."""
    changed, lost = 0, []
    waiting = Instance.objects.exclude(admin_password="")
    for instance_id, kept in list(waiting.values_list("id", "admin_password")):
        try:
            fresh = renewed(kept, newest)
        except InvalidToken:
            lost.append(str(instance_id))
            continue
        if fresh != kept:
            changed += Instance.objects.filter(id=instance_id, admin_password=kept).update(admin_password=fresh)
    return changed, lost


def clear_password(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Forget the password that the guest has posted (``os-server-password``).  Raises NotFoundError."""
    return write(context, instance_id, {"password": ""})
