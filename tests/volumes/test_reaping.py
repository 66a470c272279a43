"""Deadlines of tasks when no periodic job has run for a time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from provisioning.volumes.models import Volume
from provisioning.volumes.upkeep import upkeep
from tests.support.jobs import nobody_looked
from tests.volumes.conftest import Town


@pytest.mark.both_databases("locks")
def test_deadlines_are_extended_by_the_time_without_a_run(town: Town) -> None:
    volume = town.make()
    before = timezone.now() - timedelta(minutes=5)
    Volume.objects.filter(id=volume.id).update(status="extending", deadline=before)
    nobody_looked("volumes.reap", 3600)
    assert upkeep.reap() == 0
    after = town.fresh(volume)
    assert after.status == "extending"
    assert after.deadline is not None
    assert after.deadline - before > timedelta(minutes=50)
