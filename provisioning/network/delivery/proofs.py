"""Proves that the control plane sent a document to a host.

Each document has a mark, ``<digest>.<signature>``, which the host repeats in ``Owned.digest``.  The signature covers
host, kind, id and generation.  A host cannot claim a network that it was never sent and receive the network's members:
its report counts only with a valid mark.  The records, which may be lost, are not needed.
"""

import hashlib
import hmac

from django.conf import settings

from compute_agent.contract.messages import Owned
from provisioning.network.models import Delivery


def mark_of(row: Delivery, digest: str) -> str:
    """Return the mark that a host repeats for a document with this digest."""
    return f"{digest}.{_signature(row, row.generation, settings.SECRET_KEY)}"


def digest_in(owned: Owned) -> str:
    """Return the digest that a host reports for its document; empty if it reports none."""
    return owned.digest.partition(".")[0]


def is_proven(row: Delivery, owned: Owned) -> bool:
    """Return whether the control plane sent this version of the document to the host of the row."""
    return any(_bears(row, owned, key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


def is_outdated(row: Delivery, owned: Owned) -> bool:
    """Return whether an old key signed the mark: the document must be sent again before the next key rotation."""
    return bool(owned.digest) and not _bears(row, owned, settings.SECRET_KEY)


def _bears(row: Delivery, owned: Owned, key: str) -> bool:
    signature = owned.digest.partition(".")[2]
    return hmac.compare_digest(signature.encode(), _signature(row, owned.generation, key).encode())


def _signature(row: Delivery, generation: int, key: str) -> str:
    text = f"novella.documents\0{row.host_id}\0{row.kind}\0{row.subject_id}\0{generation}"
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
