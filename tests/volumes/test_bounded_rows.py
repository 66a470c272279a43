"""Requests that members repeat without end leave a bounded number of rows."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Attachment, Message, VolumeType
from provisioning.volumes.services import messages
from provisioning.volumes.services.connections import attachments
from tests.volumes.conftest import Town

pytestmark = pytest.mark.both_databases


@pytest.mark.slow
def test_a_volume_of_several_servers_has_so_many_attachments(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MOST_OF_VOLUME", 3)
    VolumeType.objects.create(name="many", extra_specs={"multiattach": "<is> True"})
    volume, other = (town.make(volume_type="many") for _ in range(2))
    for _ in range(3):
        attachments.reserve(town.alice, volume.id, None)
    for server in (None, uuid.uuid4()):
        with pytest.raises(InvalidVolumeError):
            attachments.reserve(town.alice, volume.id, server)
    attachments.reserve(town.alice, other.id, None)
    attachments.release(Attachment.objects.filter(volume=volume).earliest("created_at").id)
    attachments.reserve(town.alice, volume.id, None)


def test_a_project_keeps_its_newest_messages(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_OF_PROJECT", 3)
    volume, somebody = town.make(), uuid.uuid4()
    messages.write(somebody, "VOLUME", None, messages.DELETE, "other")
    for number in range(6):
        messages.of_volume(volume, messages.DELETE, str(number))
    kept = Message.objects.filter(project_id=volume.project_id).order_by("created_at", "id")
    assert [each.text[-1] for each in kept] == ["3", "4", "5"]
    assert Message.objects.filter(project_id=somebody).count() == 1


def test_a_message_expires_after_the_time_of_the_setting(town: Town, settings: Any) -> None:
    settings.MESSAGE_TTL = 90
    before = timezone.now()
    message = messages.of_volume(town.make(), messages.DELETE, "no room")
    assert before <= message.expires_at - timedelta(seconds=90) <= timezone.now()
    Message.objects.update(expires_at=before)
    assert (messages.forget_old(), Message.objects.count()) == (1, 0)
