"""Images in the Django admin: taken out of use and given back."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.hosts.models import CachedImage
from provisioning.images.models import Image
from tests.ops.test_admin import act
from tests.support.cast import People
from tests.support.clouds import Cloud

PATH = "/admin/images/image/"


@pytest.mark.slow
def test_images_are_taken_out_of_use_and_given_back(admin: Client, people: People, cloud: Cloud) -> None:
    empty = Image.objects.create(project_id=people.alice.project_id, name="empty")
    rows = [cloud.image, empty]
    assert "Deactivate these images?" in act(admin, PATH, "deactivate_images", rows).content.decode()
    cloud.image.refresh_from_db()
    assert cloud.image.status == "active"
    page = act(admin, PATH, "deactivate_images", rows, confirmed="yes").content.decode()
    assert "Images deactivated: 1." in page
    assert "Not allowed to deactivate image in status &#x27;queued&#x27;" in page
    cloud.image.refresh_from_db()
    assert cloud.image.status == "deactivated"
    assert "Images reactivated: 1." in act(admin, PATH, "reactivate_images", [cloud.image]).content.decode()
    cloud.image.refresh_from_db()
    assert cloud.image.status == "active"


def test_the_page_of_an_image_says_which_hosts_have_it(admin: Client, cloud: Cloud) -> None:
    near, far = cloud.add_host("near").host, cloud.add_host("far").host
    CachedImage.objects.create(host_id=near.id, image_id=cloud.image.id)
    page = admin.get(f"{PATH}{cloud.image.id}/change/").content.decode()
    assert f"/admin/hosts/host/{near.id}/change/" in page
    assert str(far.id) not in page
