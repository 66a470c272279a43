"""What EC2 keeps in tables of its own goes when nothing needs it any more."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.ec2 import client_tokens, ids, tags
from provisioning.ec2.client_tokens import MismatchError, Owner
from provisioning.ec2.models import ClientToken, Ec2Id, Ec2Tag, SpentSignature
from provisioning.identity.records import project_resources
from provisioning.jobs import retention
from tests.compute_api.conftest import put_server
from tests.support.cast import People
from tests.support.tables import each_row

PROJECT = uuid.UUID(int=5)


@pytest.mark.slow
def test_what_no_resource_has_any_more_is_purged(people: People) -> None:
    there, gone = put_server(people.alice).id, uuid.uuid4()
    ids.ids_of("i", [there, gone])
    tags.write(people.alice.project_id, [("i", there), ("i", gone)], {"a": "b"})
    SpentSignature.objects.create(digest="old", ends_at=timezone.now() - timedelta(seconds=1))
    SpentSignature.objects.create(digest="new", ends_at=timezone.now() + timedelta(days=1))
    ClientToken.objects.create(project_id=PROJECT, user_id=PROJECT, action="RunInstances", token="old", digest="")
    ClientToken.objects.update(created_at=timezone.now() - timedelta(days=3))
    retention.purge(timezone.now() - timedelta(days=30), pause=0)
    assert list(Ec2Id.objects.values_list("resource_id", flat=True)) == [there]
    assert list(Ec2Tag.objects.values_list("resource_id", flat=True)) == [there]
    assert list(SpentSignature.objects.values_list("digest", flat=True)) == ["new"]
    assert not ClientToken.objects.exists()


def test_tags_go_with_their_project(people: People) -> None:
    tags.write(PROJECT, [("i", uuid.uuid4())], {"a": "b"})
    project_resources.remove_with_projects([PROJECT])
    assert not Ec2Tag.objects.exists()


@pytest.mark.both_databases("constraints")
def test_a_resource_has_fifty_tags_at_most(db: None) -> None:
    target = ("i", uuid.uuid4())
    tags.write(PROJECT, [target], {f"k{number}": "" for number in range(50)})
    tags.write(PROJECT, [target], {"k1": "another"})
    with pytest.raises(OverQuotaError):
        tags.write(PROJECT, [target], {"k50": ""})
    assert Ec2Tag.objects.count() == 50
    assert tags.tags_of("i", [target[1]])[target[1]]["k1"] == "another"


@each_row("tag", [{"": "x"}, {"k" * 128: "x"}, {"AWS:x": "x"}, {"a": "v" * 256}])
def test_wrong_tags_are_refused(tag: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        tags.check(tag)


def test_a_token_gives_the_first_answer_again(db: None) -> None:
    owner, done = Owner(PROJECT, PROJECT, "CreateVolume"), []

    def work() -> str:
        done.append(1)
        return f"<answer>{len(done)}</answer>"

    answers = [client_tokens.once(owner, "t", "size 1", work) for _ in range(3)]
    assert answers == ["<answer>1</answer>"] * 3
    with pytest.raises(MismatchError):
        client_tokens.once(owner, "t", "size 2", work)
    with pytest.raises(InvalidInputError):
        client_tokens.once(owner, "t" * 129, "size 2", work)
    assert client_tokens.once(Owner(PROJECT, PROJECT, "CreateVpc"), "t", "x", work) == "<answer>2</answer>"
