"""Paths of the metrics and of the health check."""

from django.urls import path

from portal.metrics.health import health
from portal.metrics.views import metrics

urlpatterns = [path("healthz", health), path("metrics", metrics)]
