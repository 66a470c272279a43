"""A web to import from."""

from tests.image.imports.importing import web  # noqa: F401 - a fixture
