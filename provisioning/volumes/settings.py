"""Volumes and their backups."""

from django.core.exceptions import ImproperlyConfigured

from provisioning.common.environment import flag, folder, integer, one_of, seconds_by_name, text, web_address
from provisioning.common.settings import PORTAL_DIR

CROSS_AZ_ATTACH = flag("NOVELLA_CROSS_AZ_ATTACH", default=True)
"""Whether servers may have volumes of another availability zone."""
VOLUME_TIMEOUTS = seconds_by_name("NOVELLA_VOLUME_TIMEOUTS", 1, 2_592_000)
"""Seconds without a report about a volume in a status, which override the defaults, as
``maintenance=7200,extending=900`` ([all of them](operator-guide.md#deadlines)).
"""
MESSAGE_TTL = integer("NOVELLA_MESSAGE_TTL", 2_592_000, 60, 315_360_000)
"""Seconds for which the messages about failed tasks of volumes, snapshots and backups are kept, as Cinder's
``message_ttl``. A change applies to new messages.
"""
BACKUP_STORE = one_of("NOVELLA_BACKUP_STORE", "folder", ("folder", "s3"))
"""Store of new backups of volumes: ``folder`` or ``s3``; older ones in the other store remain available."""
BACKUP_DIR = folder(
    "NOVELLA_BACKUP_DIR", PORTAL_DIR / "volume-backups", shown="`volume-backups/` in the portal's folder"
)
"""The folder of backups; on several machines a folder that all web and worker processes have mounted."""
BACKUP_S3_ENDPOINT = web_address("NOVELLA_BACKUP_S3_ENDPOINT", shown="that of AWS")
"""Address of an S3-compatible store, such as ``https://s3.example.org``."""
BACKUP_S3_BUCKET = text("NOVELLA_BACKUP_S3_BUCKET", "")
"""The bucket of backups, which must exist."""
BACKUP_S3_PREFIX = text("NOVELLA_BACKUP_S3_PREFIX", "").strip("/")
"""Prefix of the name of every object: clouds that share a bucket need different ones."""
BACKUP_S3_REGION = text("NOVELLA_BACKUP_S3_REGION", "us-east-1")
"""The region of the store."""
BACKUP_S3_ACCESS_KEY = text("NOVELLA_BACKUP_S3_ACCESS_KEY", "")
"""The access key, with permission to list, read, write and delete in the bucket."""
BACKUP_S3_SECRET_KEY = text("NOVELLA_BACKUP_S3_SECRET_KEY", "")
"""The secret of the access key."""
if BACKUP_STORE == "s3" and not (BACKUP_S3_BUCKET and BACKUP_S3_ACCESS_KEY and BACKUP_S3_SECRET_KEY):
    _message = (
        "NOVELLA_BACKUP_STORE is 's3'; it needs NOVELLA_BACKUP_S3_BUCKET, NOVELLA_BACKUP_S3_ACCESS_KEY and"
        " NOVELLA_BACKUP_S3_SECRET_KEY, too."
    )
    raise ImproperlyConfigured(_message)
