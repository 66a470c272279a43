"""What is kept how long, and what goes with a project."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, Model, OuterRef, Q, QuerySet, UUIDField
from django.utils import timezone

from provisioning.ec2 import client_tokens
from provisioning.ec2.kinds import UuidOfNumber, kinds
from provisioning.ec2.models import ClientToken, Ec2Id, Ec2Tag, SpentSignature
from provisioning.identity import project_resources
from provisioning.jobs import retention
from provisioning.jobs.retention import Purged
from provisioning.quotas import registry


def register() -> None:
    """Say what of EC2's records is kept how long, and let the tags go with their project."""
    retention.purge_kind(Purged("EC2 ids", Ec2Id, _ids))
    retention.purge_kind(Purged("EC2 tags", Ec2Tag, _tags))
    retention.purge_kind(Purged("client tokens", ClientToken, _tokens))
    retention.purge_kind(Purged("signatures", SpentSignature, _signatures))
    project_resources.register("EC2 tags and client tokens", None, _forget)
    registry.leave_free(
        {
            "ec2.Ec2Tag": "Fifty of a resource at most, and resources are counted.",
            "ec2.ClientToken": "One for each request that makes something, gone after two days.",
        }
    )


def _forget(project_ids: Sequence[UUID]) -> None:
    Ec2Tag.objects.filter(project_id__in=project_ids).delete()
    ClientToken.objects.filter(project_id__in=project_ids).delete()


def _without_resource() -> Q:
    """Match rows whose resource no table has any more."""
    found = Q(pk__in=[])
    for kind in kinds.values():
        there = Q(pk__in=[])
        for model in (kind.model, *kind.others):
            there |= _is_of(model)
        found |= Q(kind=kind.prefix) & ~there
    return found


def _is_of(model: type[Model]) -> Q:
    rows = model._default_manager
    if isinstance(model._meta.pk, UUIDField):
        return Q(Exists(rows.filter(pk=OuterRef("resource_id"))))
    return Q(resource_id__in=rows.annotate(resource=UuidOfNumber("pk")).values("resource"))


def _ids(before: datetime) -> QuerySet[Ec2Id]:
    return Ec2Id.objects.filter(_without_resource())


def _tags(before: datetime) -> QuerySet[Ec2Tag]:
    return Ec2Tag.objects.filter(_without_resource())


def _tokens(before: datetime) -> QuerySet[ClientToken]:
    return ClientToken.objects.filter(created_at__lt=timezone.now() - client_tokens.KEPT)


def _signatures(before: datetime) -> QuerySet[SpentSignature]:
    return SpentSignature.objects.filter(ends_at__lt=timezone.now())
