"""Images."""

from compute_agent.disk_formats.formats import FORMATS
from provisioning.common.environment import chosen, folder, integer, names, networks, ports, seconds_by_name, text
from provisioning.common.settings import PORTAL_DIR

IMAGE_DIR = folder("NOVELLA_IMAGE_DIR", PORTAL_DIR / "images", shown="`images/` in the portal's folder")
"""The image store."""
IMAGE_STORE_ID = text("NOVELLA_IMAGE_STORE_ID", "local")
"""The store's name in the Image API."""
IMAGE_DISK_FORMATS = chosen("NOVELLA_IMAGE_DISK_FORMATS", tuple(FORMATS), ("raw", "qcow2"))
"""Accepted [formats](operator-guide.md#formats-of-images) of images; must include ``raw`` and ``qcow2``. Images of
servers and volumes can always be created in two of them.
"""
IMAGE_STORAGE_QUOTA = integer("NOVELLA_IMAGE_STORAGE_QUOTA", 50 << 30, 0, 1 << 50)
"""Bytes of images of a project without the quota ``image_size_total``, checked at the beginning and end of an upload;
0: no limit.
"""
IMAGE_MEMBER_LIMIT = integer("NOVELLA_IMAGE_MEMBER_LIMIT", 128, 0, 10_000)
"""Projects with which one image can be shared."""
IMAGE_PROPERTY_PROTECTIONS = text("NOVELLA_IMAGE_PROPERTY_PROTECTIONS", "")
"""File of the [protected properties](operator-guide.md#protected-properties-of-images); the same on every web process.
The file (TOML or JSON) is read again when it changes.
"""
MAX_IMAGE_SIZE = integer("NOVELLA_MAX_IMAGE_SIZE", 1 << 40, 1 << 20, 1 << 50)
"""Maximum size of one image, in bytes."""
UPLOADS_AT_ONCE = integer("NOVELLA_UPLOADS_AT_ONCE", 8, 1, 64)
"""Concurrent uploads of images of one user, or of one project, on each machine that runs web."""
UPLOAD_LEAST_RATE = integer("NOVELLA_UPLOAD_LEAST_RATE", 1024, 0, 1 << 30)
"""Minimum bytes per second of an upload, measured over each 30 s spent waiting for the client. A slower upload is
aborted. 0: no minimum.
"""
UPLOAD_TIMEOUT = integer("NOVELLA_UPLOAD_TIMEOUT", 21_600, 60, 604_800)
"""Seconds that one upload may take, plus one second for each MiB received: an upload with an average of 1 MiB/s is
never aborted.
"""
IMPORT_METHODS = chosen("NOVELLA_IMPORT_METHODS", ("glance-direct", "web-download"))
"""Enabled methods of importing images."""
IMPORT_ALLOWED_PORTS = ports("NOVELLA_IMPORT_PORTS", ["80", "443"])
"""Ports from which images may be downloaded."""
IMPORT_ALLOWED_HOSTS = [name.lower() for name in names("NOVELLA_IMPORT_ALLOWED_HOSTS", [], shown="all")]
"""Hosts from which images may be downloaded, separated by commas; ``.example.org`` includes its subdomains."""
IMPORT_DENIED_HOSTS = [name.lower() for name in names("NOVELLA_IMPORT_DENIED_HOSTS", [])]
"""Hosts from which images may not be downloaded."""
IMPORT_ALLOWED_NETWORKS = networks("NOVELLA_IMPORT_ALLOWED_NETWORKS")
"""Internal networks from which images may be downloaded, as ``10.1.2.0/24``. All other internal addresses (loopback,
private, link-local, shared, reserved) are refused, also behind names and redirects.
"""
IMPORT_TIMEOUT = integer("NOVELLA_IMPORT_TIMEOUT", 7200, 1, 604_800)
"""Seconds that one download may take, plus one second for each MiB received."""
IMPORTS_AT_ONCE = integer("NOVELLA_IMPORTS_AT_ONCE", 2, 1, 64)
"""Concurrent imports of images of one project; the others wait."""
IMAGE_TIMEOUTS = seconds_by_name("NOVELLA_IMAGE_TIMEOUTS", 1, 2_592_000)
"""Seconds without progress of a task of an image, which override the defaults, as ``saving=120,importing=1800``
([all of them](operator-guide.md#deadlines)).
"""
STAGING_TIMEOUT = integer("NOVELLA_STAGING_TIMEOUT", 86_400, 60, 2_592_000)
"""Seconds that staged data waits for its import, and an interrupted upload of the dashboard for its next part."""
TASK_RETENTION = integer("NOVELLA_IMAGE_TASK_RETENTION", 172_800, 60, 31_536_000)
"""Seconds that the record of a finished import is kept."""
