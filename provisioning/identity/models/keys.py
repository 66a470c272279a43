"""The fingerprints of the cloud's keys. All machines that use the same database must have the same keys."""

from django.db import models


class KeyRecord(models.Model):
    """The key of one kind (``identity.encryption.key_records.KINDS``) with which the cloud encrypts or signs."""

    kind = models.CharField(max_length=20, primary_key=True)
    current = models.CharField(max_length=16)  # fingerprint
    previous = models.CharField(max_length=16, blank=True)  # some machines may still encrypt or sign with it
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.current}"


class KeyHolder(models.Model):
    """The keys of one kind that a machine had when a process last started there."""

    machine = models.CharField(max_length=255)
    kind = models.CharField(max_length=20)
    fingerprints = models.JSONField(default=list)  # the encrypting key first
    seen_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["machine", "kind"], name="one_holder_of_a_kind")]

    def __str__(self) -> str:
        return f"{self.machine} {self.kind}"
