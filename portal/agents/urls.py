"""HTTP paths of the agents."""

from django.urls import path, register_converter

from portal.agents import backups, firmware
from portal.agents.digests import Sha256
from portal.agents.images import image_bits

register_converter(Sha256, "sha256")
urlpatterns = [
    path("agent/v1/instances/<uuid:instance_id>/images/<uuid:image_id>", image_bits),
    path("agent/v1/instances/<uuid:instance_id>/firmware/<sha256:digest>", firmware.firmware_state),
    path("agent/v1/backups/<uuid:backup_id>/chunks/<int:number>/<sha256:digest>", backups.chunk),
    path("agent/v1/backups/<uuid:backup_id>/manifest", backups.manifest),
]
