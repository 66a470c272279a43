"""Everything that writes images: records, uploads, the end."""

from provisioning.images.services.records import create, delete, set_tag, update
from provisioning.images.services.uploads import recover_interrupted_uploads, upload

__all__ = ["create", "delete", "recover_interrupted_uploads", "set_tag", "update", "upload"]
