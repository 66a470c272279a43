"""The Block Storage resources of projects."""

from provisioning.ec2.kinds import Kind
from provisioning.identity.records.project_resources import Owned
from provisioning.volumes.models import Backup, Group, Snapshot, Volume
from provisioning.volumes.pools import deleted_data

OF_PROJECTS = (
    Owned("volumes", count=lambda ids: Volume.objects.filter(project_id__in=ids).count()),
    Owned("volume snapshots", count=lambda ids: Snapshot.objects.filter(project_id__in=ids).count()),
    Owned("backups", count=lambda ids: Backup.objects.filter(project_id__in=ids).count()),
    Owned("volume groups", count=lambda ids: Group.objects.filter(project_id__in=ids).count()),
    Owned("data of deleted volumes", remove=deleted_data.disown),
)
EC2_KINDS = (Kind("vol", "volume", Volume), Kind("snap", "snapshot", Snapshot))
WITH_EC2_VALUES = (Volume,)
UNPURGED = {
    **dict.fromkeys(
        ("volumes.Volume", "volumes.Snapshot", "volumes.Backup", "volumes.Group"),
        "Limited by its quota; kept until it is deleted.",
    ),
    "volumes.Attachment": "One for each use of a volume; deleted with it.",
    "volumes.DefaultType": "One for each project; written by operators.",
    "volumes.Group_volume_types": "The types of a group; deleted with the group.",
    "volumes.DeletedData": "One for each deleted volume; deleted an hour after its pool no longer has the data.",
    "volumes.GroupSnapshot": "Kept until its owner deletes it; its snapshots are limited.",
    "volumes.GroupType": "Written by operators; kept until they delete it.",
    "volumes.Message": "Deleted by a job when it expires.",
    "volumes.PoolClaim": "One for each host and each pool that it claims; deleted when the host gives up the claim.",
    "volumes.PoolHost": "One for each host and each pool that it is admitted to.",
    "volumes.QosSpec": "Written by operators; kept until they delete it.",
    "volumes.StoragePool": "One for each pool that hosts serve.",
    "volumes.Transfer": "One for each volume; deleted when it is accepted or canceled.",
    "volumes.TypeEncryption": "One for each volume type.",
    "volumes.VolumeModification": "The newest of each volume; deleted with it.",
    "volumes.VolumeType": "Written by operators; kept until they delete it.",
    "volumes.VolumeTypeAccess": "One for each project that may use a type; deleted with either.",
}
