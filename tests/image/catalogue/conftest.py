"""A folder and a site with an index, and a cloud with hosts."""

import pytest

from tests.image.catalogue.publishing import folder, site  # noqa: F401 - fixtures
from tests.image.imports.importing import web  # noqa: F401 - a fixture
from tests.support.clouds import Cloud


@pytest.fixture
def cloud(db: None) -> Cloud:
    return Cloud.make()
