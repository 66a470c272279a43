"""Sockets against the real routing."""

from tests.support.sockets import _no_tailer_left, open_socket

__all__ = ["_no_tailer_left", "open_socket"]
