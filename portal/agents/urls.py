"""HTTP paths of the agents, with SHA-256 digests."""

from django.urls import path, register_converter

from portal.agents import backups, firmware
from portal.agents.images import image_bits


class Sha256:
    """A path converter for 64 hexadecimal digits."""

    regex = "[0-9a-f]{64}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(Sha256, "sha256")


urlpatterns = [
    path("agent/v1/instances/<uuid:instance_id>/images/<uuid:image_id>", image_bits),
    path("agent/v1/instances/<uuid:instance_id>/firmware/<sha256:digest>", firmware.firmware_state),
    path("agent/v1/backups/<uuid:backup_id>/chunks/<int:number>/<sha256:digest>", backups.chunk),
    path("agent/v1/backups/<uuid:backup_id>/manifest", backups.manifest),
]
