"""In the middle of every task, and behind each of its ends, the doctor finds nothing."""

from __future__ import annotations

import pytest
from django.utils import timezone

from provisioning.doctor.examination import examine
from provisioning.jobs.models import WorkerBeat
from tests.core.test_every_task import scene as scene
from tests.support.tasks import Scene, the_command

pytestmark = pytest.mark.slow


def well() -> None:
    WorkerBeat.objects.update_or_create(name="m:b:1", defaults={"topics": "scheduler", "beat_at": timezone.now()})
    assert [str(found) for found in examine(pause=0)] == []


def test_a_task_and_its_good_end_are_well(scene: Scene) -> None:
    well()
    scene.cloud.run()
    well()
    scene.do("delete", force=True)
    well()
    scene.cloud.run()
    well()


def test_a_bad_end_is_well(scene: Scene) -> None:
    scene.host.report(the_command(scene), "failed", error_code="host_failed", message="It broke.")
    well()
