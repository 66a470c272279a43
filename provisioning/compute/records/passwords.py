"""Administrator passwords of guests: generated for a launch, stored until the guest has them, then deleted."""

import secrets
import string

from cryptography.fernet import Fernet, InvalidToken

from provisioning.compute.models import Instance
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed

MOST = 1024
"""Maximum number of characters of a password that a guest posts, encrypted, as in Nova."""
LENGTH = 12
"""Characters of a generated password, as in Nova."""
_KINDS = (string.ascii_uppercase, string.ascii_lowercase, "23456789")


def generate_password() -> str:
    """Return a random password with at least one capital letter, one small letter and one digit."""
    letters = [secrets.choice(kind) for kind in _KINDS]
    letters += [secrets.choice("".join(_KINDS)) for _ in range(LENGTH - len(letters))]
    secrets.SystemRandom().shuffle(letters)
    return "".join(letters)


def sealed(password: str | None) -> str:
    """Return the encrypted password for storage; empty for None."""
    return keys.CREDENTIALS.current().encrypt(password.encode()).decode() if password else ""


def opened(instance: Instance) -> str | None:
    """Return the decrypted password for the guest; None if there is no password, or if the key for it is lost."""
    if not instance.admin_password:
        return None
    try:
        return keys.CREDENTIALS.current().decrypt(instance.admin_password.encode()).decode()
    except InvalidToken:
        return None


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the stored passwords again with this key (``identity.encryption.encrypted``)."""
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
