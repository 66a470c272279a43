"""URLs of actions on many resources."""

from django.urls import path

from portal.dashboard.batches.listing import BatchList
from portal.dashboard.batches.views import BatchDismiss, BatchPage, BatchUndo, BulkAction

urlpatterns = [
    path("bulk/<slug:resources>/<slug:bulk_action>/", BulkAction.as_view(), name="bulk"),
    path("batches/", BatchList.as_view(), name="batches"),
    path("batches/<uuid:batch_id>/", BatchPage.as_view(), name="batch"),
    path("batches/<uuid:batch_id>/undo/", BatchUndo.as_view(), name="batch_undo"),
    path("batches/<uuid:batch_id>/dismiss/", BatchDismiss.as_view(), name="batch_dismiss"),
]
