"""Compares the keys of all machines with the keys that the cloud uses."""

from collections.abc import Iterator

from provisioning.common.errors import NovellaError
from provisioning.doctor.finding import Finding, check
from provisioning.identity.encryption import key_records
from provisioning.identity.models import KeyHolder, KeyRecord


@check("keys")
def keys_that_differ() -> Iterator[Finding]:
    """Find machines whose keys differ from the cloud's: tokens and secrets of one machine are invalid on the others."""
    try:
        key_records.agree()
    except NovellaError as error:
        yield Finding("error", f"machine {key_records.this_machine()}", error.message, evidence="keys")
    current = dict(KeyRecord.objects.values_list("kind", "current"))
    for holder in KeyHolder.objects.order_by("machine", "kind"):
        if holder.machine != key_records.this_machine() and current.get(holder.kind) not in holder.fingerprints:
            sentence = f"Its {holder.kind} keys did not include key {current.get(holder.kind)} when it last started."
            yield Finding("error", f"machine {holder.machine}", sentence, evidence=holder.kind)
