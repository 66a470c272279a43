"""Backups and transfers that are visible to a caller, and chains of incremental backups."""

import uuid

from django.db.models import Exists, OuterRef, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.volumes.errors import BackupNotFoundError, InvalidBackupError
from provisioning.volumes.models import Backup, Transfer
from provisioning.volumes.states import BackupStatus

LONGEST_CHAIN = 200
"""Maximum length of a chain of incremental backups."""


def visible_backups(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Backup]:
    """Return the backups of the caller's project with ``has_dependents``; ``all_projects`` is for operators."""
    rows = Backup.objects.annotate(has_dependents=Exists(Backup.objects.filter(parent=OuterRef("pk"))))
    if all_projects and context.is_admin:
        return rows
    return rows.filter(project_id=context.project_id or NOBODY)


def backup_for(context: RequestContext, backup_id: str | uuid.UUID) -> Backup:
    """Return one backup. Raises BackupNotFoundError if it does not exist or belongs to another project."""
    backup = visible_backups(context, all_projects=True).filter(id=read_id(backup_id) or NOBODY).first()
    if backup is None:
        raise BackupNotFoundError(backup_id)
    return backup


def newest_of(volume_id: uuid.UUID, project_id: uuid.UUID, service: str) -> Backup | None:
    """Return the parent of a new incremental backup: the volume's newest available backup in the same store."""
    rows = Backup.objects.filter(volume_id=volume_id, project_id=project_id, service=service)
    return rows.filter(status=BackupStatus.AVAILABLE).order_by("-data_at", "-created_at").first()


def chain_of(backup: Backup) -> list[Backup]:
    """Return a backup and the backups that it builds on, the full one first.

    Raises InvalidBackupError if a backup that it builds on is not available.
    """
    chain = [backup]
    while chain[-1].parent_id is not None and len(chain) <= LONGEST_CHAIN:
        chain.append(Backup.objects.get(id=chain[-1].parent_id))
    for each in chain[1:]:
        if each.status not in {BackupStatus.AVAILABLE, BackupStatus.RESTORING}:
            raise InvalidBackupError(f"Backup {each.id}, on which this one builds, is {each.status}.")
    return chain[::-1]


def visible_transfers(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Transfer]:
    """Return the transfers of the caller's project; ``all_projects`` is for operators."""
    rows = Transfer.objects.select_related("volume")
    if all_projects and context.is_admin:
        return rows
    return rows.filter(source_project_id=context.project_id or NOBODY)


def transfer_for(context: RequestContext, transfer_id: str) -> Transfer:
    """Return one transfer. Raises NotFoundError if it does not exist or belongs to another project."""
    transfer = visible_transfers(context, all_projects=True).filter(id=read_id(transfer_id) or NOBODY).first()
    if transfer is None:
        raise NotFoundError(f"Transfer {transfer_id[:64]} could not be found.")
    return transfer
