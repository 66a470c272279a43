"""URLs of graphs."""

from django.urls import path

from portal.dashboard.graphs import views

urlpatterns = [
    path("graphs/project/<slug:span>/", views.ProjectGraphs.as_view(), name="project_graphs"),
    path("graphs/cloud/<slug:span>/", views.CloudGraphs.as_view(), name="cloud_graphs"),
    path("graphs/hosts/<uuid:host_id>/<slug:span>/", views.HostGraphs.as_view(), name="host_graphs"),
    path("graphs/pools/<uuid:pool_id>/<slug:span>/", views.PoolGraphs.as_view(), name="pool_graphs"),
]
