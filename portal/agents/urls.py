"""HTTP paths of the agents."""

from django.urls import path

from portal.agents.images import image_bits

urlpatterns = [path("agent/v1/instances/<uuid:instance_id>/images/<uuid:image_id>", image_bits)]
