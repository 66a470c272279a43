"""Encryption of stored secrets with the credential keys, and their re-encryption before an old key is deleted."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken

from provisioning.common.wired import Wired
from provisioning.identity.encryption import keys

EncryptAgain = Callable[[Fernet], tuple[int, Sequence[str]]]
"""Encrypts secrets again with this key; returns their number, and the ids of secrets that no key decrypts.

Secrets that another process changes in the meantime are skipped.
"""


@dataclass(frozen=True, slots=True)
class Encrypted:
    """One kind of encrypted record, by its name in the singular (``credential``)."""

    kind: str
    encrypt_again: EncryptAgain


KINDS = Wired[Encrypted]("The encrypted records")


def encrypt_all_again(newest: Fernet) -> tuple[Counter[str], list[str]]:
    """Encrypt all secrets again with this key; return the number of each kind, and the secrets that no key decrypts."""
    changed: Counter[str] = Counter()
    lost: list[str] = []
    for each in KINDS:
        changed[each.kind], ids = each.encrypt_again(newest)
        lost += [f"{each.kind} {lost_id}" for lost_id in ids]
    return changed, lost


def renewed(encrypted: str, newest: Fernet) -> str:
    """Return the text encrypted with this key. A text that this key already encrypts is returned unchanged.

    Raises InvalidToken if no key decrypts it.
    """
    try:
        newest.decrypt(encrypted.encode())
    except InvalidToken:
        return newest.encrypt(keys.CREDENTIALS.current().decrypt(encrypted.encode())).decode()
    return encrypted
