"""The stored reports of the doctor."""

from django.db import models


class DoctorRun(models.Model):
    """The report of one examination of the cloud: its findings and their repairs."""

    started_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    trigger = models.CharField(max_length=16)  # clock, command or operator
    asked_by = models.CharField(max_length=255, blank=True)  # a user's name; empty: not an operator's run
    checks = models.JSONField(default=list)  # names
    findings = models.JSONField(default=list)  # [{"check", "severity", "subject", "sentence", "repair", "repaired"}]
    errors = models.PositiveIntegerField(default=0)
    warnings = models.PositiveIntegerField(default=0)
    notes = models.PositiveIntegerField(default=0)
    repaired = models.PositiveIntegerField(default=0)
    repair = models.BooleanField(default=False)  # whether repairs were requested

    class Meta:
        indexes = [models.Index(fields=["-started_at"], name="doctor_run_by_age")]
        verbose_name = "doctor's report"

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M:%S}"
