"""Retention of EC2's records, and their deletion with projects."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, Model, OuterRef, Q, QuerySet, UUIDField
from django.utils import timezone

from provisioning.ec2 import client_tokens, given
from provisioning.ec2.kinds import KINDS, UuidOfNumber, by_prefix
from provisioning.ec2.models import (
    ClientToken,
    CreationTags,
    Ec2Id,
    Ec2Tag,
    GivenValue,
    MetadataOptions,
    SpentSignature,
)
from provisioning.identity.records.project_resources import Owned
from provisioning.jobs.retention import Purged


def _forget(project_ids: Sequence[UUID]) -> None:
    Ec2Tag.objects.filter(project_id__in=project_ids).delete()
    CreationTags.objects.filter(project_id__in=project_ids).delete()
    MetadataOptions.objects.filter(project_id__in=project_ids).delete()
    GivenValue.objects.filter(project_id__in=project_ids).delete()
    ClientToken.objects.filter(project_id__in=project_ids).delete()


def _without_resource() -> Q:
    """Match rows whose resource no longer exists."""
    result = Q(pk__in=[])
    for kind in KINDS:
        there = Q(pk__in=[])
        for model in (kind.model, *kind.others):
            there |= _is_of(model)
        result |= Q(kind=kind.prefix) & ~there
    return result


def _is_of(model: type[Model]) -> Q:
    rows = model._default_manager
    if isinstance(model._meta.pk, UUIDField):
        return Q(Exists(rows.filter(pk=OuterRef("resource_id"))))
    return Q(resource_id__in=rows.annotate(resource=UuidOfNumber("pk")).values("resource"))


def _ids(before: datetime) -> QuerySet[Ec2Id]:
    return Ec2Id.objects.filter(_without_resource())


def _tags(before: datetime) -> QuerySet[Ec2Tag]:
    return Ec2Tag.objects.filter(_without_resource())


def _creation_tags(before: datetime) -> QuerySet[CreationTags]:
    return CreationTags.objects.exclude(instance_id__in=_instances())


def _metadata_options(before: datetime) -> QuerySet[MetadataOptions]:
    return MetadataOptions.objects.exclude(instance_id__in=_instances())


def _values(before: datetime) -> QuerySet[GivenValue]:
    there = Q(pk__in=[])
    for model in given.OWNERS:
        there |= Q(Exists(model._default_manager.filter(pk=OuterRef("resource_id"))))
    return GivenValue.objects.exclude(there)


def _instances() -> QuerySet[Model, UUID]:
    rows: QuerySet[Model, UUID] = by_prefix()["i"].model._default_manager.values_list("pk", flat=True)
    return rows


def _tokens(before: datetime) -> QuerySet[ClientToken]:
    return ClientToken.objects.filter(created_at__lt=timezone.now() - client_tokens.RETENTION)


def _signatures(before: datetime) -> QuerySet[SpentSignature]:
    return SpentSignature.objects.filter(ends_at__lt=timezone.now())


PURGED = (
    Purged("EC2 ids", Ec2Id, _ids),
    Purged("EC2 tags", Ec2Tag, _tags),
    Purged("EC2 tags of launches", CreationTags, _creation_tags),
    Purged("EC2 metadata options", MetadataOptions, _metadata_options),
    Purged("EC2 values", GivenValue, _values),
    Purged("client tokens", ClientToken, _tokens),
    Purged("signatures", SpentSignature, _signatures),
)
OF_PROJECTS = (Owned("EC2 tags and client tokens", remove=_forget),)
UNLIMITED = {
    "ec2.Ec2Tag": "At most 50 of each resource, and resources are limited by quotas.",
    "ec2.CreationTags": "At most 50 for each resource type of a launch, deleted with the instance.",
    "ec2.MetadataOptions": "One for each instance, deleted with it.",
    "ec2.GivenValue": "A few for each resource, deleted with it, and resources are limited by quotas.",
    "ec2.ClientToken": "One for each request that creates a resource, deleted after two days.",
}
