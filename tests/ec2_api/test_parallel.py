"""Requests that come at the same moment, told by what another has done between two steps of one."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import ServerGroup
from provisioning.ec2 import client_tokens, ids
from provisioning.ec2.models import ClientToken
from provisioning.images.models import Image
from provisioning.network import services
from provisioning.network.models import SecurityGroup
from tests.ec2_api.conftest import refused
from tests.ec2_api.test_instances import launched
from tests.support.cast import People
from tests.support.clouds import Cloud


def test_two_groups_of_one_name_are_never_made(alice: Any, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    make = services.create_security_group

    def both(project_id: Any, name: str, **rest: Any) -> SecurityGroup:
        make(project_id, name)
        return make(project_id, name, **rest)

    monkeypatch.setattr("portal.api.ec2.actions.security_groups.changes.services.create_security_group", both)
    assert refused(alice.create_security_group, GroupName="web", Description="x") == "InvalidGroup.Duplicate"
    assert not SecurityGroup.objects.filter(name="web", description="x").exists()


def test_two_placement_groups_of_one_name_are_never_created(
    alice: Any, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is compared while the project's counter is locked."""

    def hold(project_id: uuid.UUID, group_id: uuid.UUID, *amounts: Any, user_id: uuid.UUID) -> None:
        ServerGroup.objects.create(project_id=project_id, user_id=user_id, name="near", policy="affinity")

    monkeypatch.setattr("provisioning.compute.services.server_groups.hold", hold)
    assert refused(alice.create_placement_group, GroupName="near") == "InvalidPlacementGroup.Duplicate"
    assert not ServerGroup.objects.exists()


@pytest.mark.slow
def test_two_images_of_one_name_are_never_made(alice: Any, people: People, cloud: Cloud) -> None:
    """Who makes the first holds the name meanwhile; a process that died holds it for some minutes."""
    instance = launched(alice, cloud)
    owner = client_tokens.Owner(people.alice.project_id, NOBODY, "AMI name")
    with client_tokens.alone(owner, "gold") as first, client_tokens.alone(owner, "gold") as second:
        assert (first, second) == (True, False)
        assert refused(alice.create_image, InstanceId=instance, Name="gold") == "InvalidAMIName.Duplicate"
    assert not ClientToken.objects.filter(action=owner.action).exists()
    old = ClientToken.objects.create(**vars_of(owner), token="gold", digest="")
    ClientToken.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(minutes=6))
    made = alice.create_image(InstanceId=instance, Name="gold")["ImageId"]
    assert made == ids.id_of("ami", Image.objects.get(name="gold").id)
    assert not ClientToken.objects.filter(action=owner.action).exists()


def vars_of(owner: client_tokens.Owner) -> dict[str, Any]:
    return {"project_id": owner.project_id, "user_id": owner.user_id, "action": owner.action}
