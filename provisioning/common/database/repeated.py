"""Marks statements that are sent frequently."""


class Repeated(str):
    """Text of a statement that is sent frequently with different values.

    PostgreSQL keeps its plan (``provisioning.common.postgresql``), so the server must be able to infer the type of each
    parameter from the text. For SQLite's driver, which caches all statements, it is ordinary text.
    """

    __slots__ = ()
