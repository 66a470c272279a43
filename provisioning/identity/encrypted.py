"""Records that are encrypted with the keys of credentials: a new key takes over all before an old one is deleted."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken

from provisioning.common.wired import Wired
from provisioning.identity import keys

EncryptAgain = Callable[[Fernet], tuple[int, Sequence[str]]]
"""Encrypts with this key what an older one encrypted: returns how many, and the ids of what no key opens.

What is changed meanwhile is left to whoever changes it.
"""


@dataclass(frozen=True, slots=True)
class Encrypted:
    """One kind of encrypted record, by its name in the singular (``credential``)."""

    kind: str
    encrypt_again: EncryptAgain


KINDS = Wired[Encrypted]("The encrypted records")


def encrypt_all_again(newest: Fernet) -> tuple[Counter[str], list[str]]:
    """Encrypt with this key what older ones encrypted: return how many of each kind, and what no key opens."""
    changed: Counter[str] = Counter()
    lost: list[str] = []
    for each in KINDS:
        changed[each.kind], ids = each.encrypt_again(newest)
        lost += [f"{each.kind} {lost_id}" for lost_id in ids]
    return changed, lost


def renewed(encrypted: str, newest: Fernet) -> str:
    """Return the same text encrypted with this key, as it is when that is done; InvalidToken when no key opens it."""
    try:
        newest.decrypt(encrypted.encode())
    except InvalidToken:
        return newest.encrypt(keys.CREDENTIALS.current().decrypt(encrypted.encode())).decode()
    return encrypted
