"""HTTP paths beside the WebSockets."""

from django.urls import path

from portal.live import views
from portal.live.metrics import metrics

urlpatterns = [
    path("agent/v1/instances/<uuid:instance_id>/images/<uuid:image_id>", views.image_bits),
    path("healthz", views.health),
    path("metrics", metrics),
]
