"""HTTP paths beside the WebSockets."""

from django.urls import path

from portal.live import views

urlpatterns = [
    path("agent/v1/instances/<uuid:instance_id>/images/<uuid:image_id>", views.image_bits),
    path("healthz", views.health),
]
