"""Sockets against the real routing."""

from tests.support.sockets import open_socket

__all__ = ["open_socket"]
