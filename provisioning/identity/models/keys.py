"""Which keys the cloud uses, by fingerprint: machines that share a database must share the keys."""

from django.db import models


class KeyRecord(models.Model):
    """The key of one kind (``provisioning.identity.key_records.KINDS``) that the cloud writes with."""

    kind = models.CharField(max_length=20, primary_key=True)
    current = models.CharField(max_length=16)  # fingerprint
    previous = models.CharField(max_length=16, blank=True)  # some machines may still write with it
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.current}"


class KeyHolder(models.Model):
    """The keys of one kind that a machine had when a process last started there."""

    machine = models.CharField(max_length=255)
    kind = models.CharField(max_length=20)
    fingerprints = models.JSONField(default=list)  # first the one that it writes with
    seen_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["machine", "kind"], name="one_holder_of_a_kind")]

    def __str__(self) -> str:
        return f"{self.machine} {self.kind}"
