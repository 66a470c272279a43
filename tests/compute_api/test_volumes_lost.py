"""What is made up for when a step between a volume and its server was lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute import volume_user
from provisioning.volumes.models import Attachment
from provisioning.volumes.upkeep import reap
from tests.compute_api.conftest import launch
from tests.compute_api.test_volumes import attach, cloud, new_volume, status
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

__all__ = ["cloud"]


def test_a_volume_that_is_connected_reaches_its_guest_in_the_end(
    api: Api, cloud: Cloud, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, volume = launch(api, cloud), new_volume(people, cloud)
    with monkeypatch.context() as lost:

        def lose(*_: object, **__: Any) -> None:
            pass

        lost.setattr(volume_user, "cast_here", lose)
        assert attach(api, server, volume).status_code == 200
        cloud.run()
    assert Attachment.objects.get(volume=volume).connection != {}
    reap()
    cloud.run()
    assert status(volume) == "attaching", "its time is not over"
    Attachment.objects.filter(volume=volume).update(updated_at=timezone.now() - timedelta(hours=1))
    reap()
    cloud.run()
    assert status(volume) == "in-use"
