"""What the apps keep encrypted with the keys of credentials: a new key takes all of it over before an old one goes.

An app registers in ``AppConfig.ready``.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from cryptography.fernet import Fernet, InvalidToken

from provisioning.identity import keys

EncryptAgain = Callable[[Fernet], tuple[int, Sequence[str]]]
"""Encrypts with this key what an older one encrypted: returns how many, and the ids of what no key opens.

What is changed meanwhile is left to whoever changes it.
"""

_kinds: dict[str, EncryptAgain] = {}


def register(kind: str, encrypt_again: EncryptAgain) -> None:
    """Make something encrypted known, by its name in the singular (``credential``)."""
    _kinds[kind] = encrypt_again


def encrypt_all_again(newest: Fernet) -> tuple[Counter[str], list[str]]:
    """Encrypt with this key what older ones encrypted: return how many of each kind, and what no key opens."""
    changed: Counter[str] = Counter()
    lost: list[str] = []
    for kind, encrypt_again in _kinds.items():
        changed[kind], ids = encrypt_again(newest)
        lost += [f"{kind} {lost_id}" for lost_id in ids]
    return changed, lost


def renewed(encrypted: str, newest: Fernet) -> str:
    """Return the same text encrypted with this key, as it is when that is done; InvalidToken when no key opens it."""
    try:
        newest.decrypt(encrypted.encode())
    except InvalidToken:
        return newest.encrypt(keys.CREDENTIALS.current().decrypt(encrypted.encode())).decode()
    return encrypted
