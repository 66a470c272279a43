"""The EC2 API, below ``/ec2``; old clients use ``/services/Cloud``."""

from django.urls import path, re_path

from portal.api.ec2.views import Ec2View, NoSuchResource

urlpatterns = [
    path("", Ec2View.as_view()),
    path("/", Ec2View.as_view()),
    path("/services/Cloud", Ec2View.as_view()),
    path("/services/Cloud/", Ec2View.as_view()),
    re_path(r"", NoSuchResource.as_view()),
]
