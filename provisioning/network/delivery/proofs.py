"""Proves that the portal itself told a host of a document.

With each document a host is told a mark, ``<digest>.<signature>``, that it repeats in ``Owned.digest``.  The signature
is over host, kind, id and generation.  So a host cannot name a network that it was never told of, and be told then who
is on it: what it says of such a document counts only with a mark that the portal made.  Records need not know of it:
they may be the ones that are lost.
"""

import hashlib
import hmac

from django.conf import settings

from compute_agent.contract.messages import Owned
from provisioning.network.models import Delivery


def mark_of(row: Delivery, digest: str) -> str:
    """Return what a host is to repeat of a document with this digest."""
    return f"{digest}.{_signature(row, row.generation, settings.SECRET_KEY)}"


def digest_in(owned: Owned) -> str:
    """Return the digest of the document that a host says it has; empty when it says none."""
    return owned.digest.partition(".")[0]


def is_proven(row: Delivery, owned: Owned) -> bool:
    """Return whether the portal has told the host of the row this version of the document."""
    return any(_bears(row, owned, key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


def is_outdated(row: Delivery, owned: Owned) -> bool:
    """Return whether a mark is worth nothing from the next rotation of keys on: the document is to be told again."""
    return bool(owned.digest) and not _bears(row, owned, settings.SECRET_KEY)


def _bears(row: Delivery, owned: Owned, key: str) -> bool:
    signature = owned.digest.partition(".")[2]
    return hmac.compare_digest(signature.encode(), _signature(row, owned.generation, key).encode())


def _signature(row: Delivery, generation: int, key: str) -> str:
    text = f"novella.documents\0{row.host_id}\0{row.kind}\0{row.subject_id}\0{generation}"
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
