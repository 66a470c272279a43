"""A cloud for the doctor to look at."""

from __future__ import annotations

import pytest
from django.utils import timezone

from provisioning.jobs.models import WorkerBeat
from tests.support.clouds import Cloud


@pytest.fixture
def cloud(db: None) -> Cloud:
    """A cloud with two hosts and a worker; what a test breaks and does not mend stays broken."""
    made = Cloud.make()
    made.add_host("one")
    made.add_host("two")
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now())
    return made
