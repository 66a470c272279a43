"""A cloud for the doctor to look at."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from provisioning.jobs.models import WorkerBeat
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture(autouse=True)
def _examined() -> None:
    """Clouds are not examined at the end: a test may leave what it breaks."""


@pytest.fixture
@standing
def two_hosts(db: None) -> Cloud:
    made = Cloud.make()
    made.add_host("one")
    made.add_host("two")
    return made


@pytest.fixture
def cloud(two_hosts: Cloud) -> Cloud:
    """A cloud with two hosts and a worker, which has been alive until now."""
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now() + timedelta(hours=1))
    return two_hosts
