"""Errors of the catalogue, with messages for users and operators."""

from provisioning.common.errors import NovellaError


class CatalogueError(NovellaError):
    """The index cannot be read, is invalid, or is not signed by a trusted key."""

    code = "catalogue"
