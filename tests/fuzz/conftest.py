"""The world that the table of routes uses."""

from tests.security.conftest import world

__all__ = ["world"]
