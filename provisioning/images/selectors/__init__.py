"""Images that are visible to a caller."""

from provisioning.images.selectors.access import image_for, images_by_id, visible_images
from provisioning.images.selectors.data import arrived_of, data_for, end_of_arrived, locations_for, open_data
from provisioning.images.selectors.lists import NEWEST_FIRST, SORT_KEYS, images_for, listed_images, offered_first
from provisioning.images.selectors.members import answers_for, member_for, members_for
from provisioning.images.selectors.storage import storage_left, storage_used
from provisioning.images.selectors.use import images_of_use, usable_image_for, usable_images_for

__all__ = [
    "NEWEST_FIRST",
    "SORT_KEYS",
    "answers_for",
    "arrived_of",
    "data_for",
    "end_of_arrived",
    "image_for",
    "images_by_id",
    "images_for",
    "images_of_use",
    "listed_images",
    "locations_for",
    "member_for",
    "members_for",
    "offered_first",
    "open_data",
    "storage_left",
    "storage_used",
    "usable_image_for",
    "usable_images_for",
    "visible_images",
]
