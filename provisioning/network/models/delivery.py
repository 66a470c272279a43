"""Documents that were sent to hosts, and subjects whose documents must be sent again."""

from django.db import models


class DeliveryMark(models.Model):
    """A subject that has changed; a job sends its documents to the hosts that need them."""

    kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    marked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject_id"], name="one_mark")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"


class Delivery(models.Model):
    """The last document of one subject that was sent to one host."""

    host_id = models.UUIDField(db_index=True)
    kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    generation = models.PositiveBigIntegerField(default=0)  # of the newest command; never decreases
    digest = models.CharField(max_length=64, blank=True)  # SHA-256 of the document, hex; empty: the host must forget it
    command_id = models.UUIDField(null=True)  # the command that has not finished
    again = models.BooleanField(default=False)  # the subject has changed since that command
    error = models.CharField(max_length=255, blank=True)  # why the last command failed
    tries = models.PositiveSmallIntegerField(default=0)  # failed commands since the last success
    changed_at = models.DateTimeField(default=None, null=True)
    newer_at = models.DateTimeField(default=None, null=True)  # when its host reported a newer document
    copied = models.PositiveBigIntegerField(
        default=None, null=True
    )  # its generation in a restored backup, until a command succeeds
    kept = models.BooleanField(default=False, db_default=False)  # for a guest without a placement on the host
    vni = models.PositiveIntegerField(null=True)  # of a kept network; no other network gets it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject_id", "host_id"], name="one_delivery")]
        indexes = [models.Index(fields=["vni"], name="kept_vni", condition=models.Q(kept=True))]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"
