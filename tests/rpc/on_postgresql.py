"""A pytest plugin, loaded behind tests.data_folder: the tests run on the PostgreSQL server of TESTS_POSTGRESQL."""

import os

os.environ["NOVELLA_DATABASE_URL"] = os.environ["TESTS_POSTGRESQL"]
