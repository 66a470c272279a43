"""The five phases of libvirt's migration as single calls: begin, prepare, perform, finish, confirm.

libvirt's public functions run all phases in one process, which needs a connection to both hosts, or in the source's
daemon, which needs full control of the other host's daemon. The phases themselves are exported by ``libvirt.so`` for
its own daemons since version 1.1.0 (``virDomainMigrateBegin3Params`` etc.). Each host calls them on its own libvirt
only; the agents transport the cookies.
"""

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import libvirt

from compute_agent.virt.errors import UnsupportedError

LIBRARY = "libvirt.so.0"
NAMES = tuple(f"virDomainMigrate{phase}3Params" for phase in ("Begin", "Prepare", "Perform", "Finish", "Confirm"))
Parameters = Mapping[str, str | int | list[str]]

_p, _text, _int, _flags = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
_out, _length = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)


@cache
def _library() -> Any:
    """Return the library with the types of its functions. Raises UnsupportedError if it lacks the phases."""
    try:
        library = ctypes.CDLL(LIBRARY)
        begin, prepare, perform, finish, confirm = (getattr(library, name) for name in NAMES)
    except (OSError, AttributeError) as error:
        raise UnsupportedError("This host's libvirt cannot migrate guests.", detail=str(error)) from error
    begin.argtypes, begin.restype = [_p, _p, _int, _out, _length, _flags], _p
    prepare.argtypes = [_p, _p, _int, _text, _int, _out, _length, _out, _flags]
    perform.argtypes = [_p, _text, _p, _int, _text, _int, _out, _length, _flags]
    finish.argtypes, finish.restype = [_p, _p, _int, _text, _int, _out, _length, _flags, _int], _p
    confirm.argtypes = [_p, _p, _int, _text, _int, _flags, _int]
    where: list[Any] = [ctypes.POINTER(ctypes.c_void_p), _length, _length, _text]
    library.virTypedParamsAddString.argtypes = [*where, _text]
    library.virTypedParamsAddULLong.argtypes = [*where, ctypes.c_ulonglong]
    library.virTypedParamsFree.argtypes = [_p, _int]
    library.virDomainFree.argtypes = [_p]
    return library


@cache
def _libc() -> Any:
    library = ctypes.CDLL(None)
    library.free.argtypes = [_p]
    return library


def available() -> bool:
    """Return whether this libvirt exports the phases."""
    try:
        _library()
    except UnsupportedError:
        return False
    return True


def begin(domain: Any, parameters: Parameters, flags: int) -> bytes:
    """Begin on the source; return its cookie. The guest's changes are blocked until ``confirm``."""
    library, cookie = _library(), _Cookie()
    with _Parameters(parameters) as typed:
        text = library.virDomainMigrateBegin3Params(_pointer(domain, b"virDomainPtr"), *typed, *cookie.out, flags)
    if not text:
        raise libvirt.libvirtError("virDomainMigrateBegin3Params() failed")
    _libc().free(text)
    return cookie.pop()


def prepare(connection: Any, parameters: Parameters, cookie: bytes, flags: int) -> bytes:
    """Start the waiting guest on the target; return its cookie."""
    library, answer, uri = _library(), _Cookie(), ctypes.c_void_p()
    with _Parameters(parameters) as typed:
        done = library.virDomainMigratePrepare3Params(
            _pointer(connection, b"virConnectPtr"), *typed, cookie, len(cookie), *answer.out, ctypes.byref(uri), flags
        )
    _libc().free(uri.value)
    return _done(done, answer, "Prepare")


def perform(domain: Any, parameters: Parameters, cookie: bytes, flags: int) -> bytes:
    """Transfer disks and memory from the source; the guest is paused afterwards. Return the source's cookie."""
    library, answer = _library(), _Cookie()
    with _Parameters(parameters) as typed:
        done = library.virDomainMigratePerform3Params(
            _pointer(domain, b"virDomainPtr"), None, *typed, cookie, len(cookie), *answer.out, flags
        )
    return _done(done, answer, "Perform")


def finish(connection: Any, parameters: Parameters, cookie: bytes, flags: int, *, cancelled: bool) -> bytes:
    """Start the transferred guest on the target, or remove it if ``cancelled``; return the target's cookie."""
    library, answer = _library(), _Cookie()
    with _Parameters(parameters) as typed:
        domain = library.virDomainMigrateFinish3Params(
            _pointer(connection, b"virConnectPtr"), *typed, cookie, len(cookie), *answer.out, flags, int(cancelled)
        )
    result = answer.pop()
    if domain:
        library.virDomainFree(domain)
    elif not cancelled:
        raise libvirt.libvirtError("virDomainMigrateFinish3Params() failed")
    return result


def confirm(domain: Any, parameters: Parameters, cookie: bytes, flags: int, *, cancelled: bool) -> None:
    """Stop the guest on the source, or resume it if ``cancelled``."""
    library = _library()
    with _Parameters(parameters) as typed:
        done = library.virDomainMigrateConfirm3Params(
            _pointer(domain, b"virDomainPtr"), *typed, cookie, len(cookie), flags, int(cancelled)
        )
    if done < 0:
        raise libvirt.libvirtError("virDomainMigrateConfirm3Params() failed")


class _Cookie:
    """A buffer that libvirt allocates."""

    def __init__(self) -> None:
        self._at, self._length = ctypes.c_void_p(), ctypes.c_int()

    @property
    def out(self) -> tuple[Any, Any]:
        return ctypes.byref(self._at), ctypes.byref(self._length)

    def pop(self) -> bytes:
        """Return the content, and free the buffer."""
        content = ctypes.string_at(self._at.value, self._length.value) if self._at.value else b""
        _libc().free(self._at.value)
        self._at.value = None
        return content


class _Parameters:
    """Typed parameters of libvirt, freed after the block."""

    def __init__(self, values: Parameters) -> None:
        self._values = values
        self._at, self._count, self._room = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()

    def __enter__(self) -> tuple[Any, int]:
        library = _library()
        where = ctypes.byref(self._at), ctypes.byref(self._count), ctypes.byref(self._room)
        for name, value in self._values.items():
            for each in value if isinstance(value, list) else [value]:
                add: Callable[..., int] = (
                    library.virTypedParamsAddULLong if isinstance(each, int) else library.virTypedParamsAddString
                )
                if add(*where, name.encode(), each if isinstance(each, int) else each.encode()) < 0:
                    raise libvirt.libvirtError("virTypedParamsAdd() failed")
        return self._at, self._count.value

    def __exit__(self, *_error: object) -> None:
        _library().virTypedParamsFree(self._at, self._count)


def _done(result: int, cookie: _Cookie, phase: str) -> bytes:
    content = cookie.pop()
    if result < 0:
        raise libvirt.libvirtError(f"virDomainMigrate{phase}3Params() failed")
    return content


def _pointer(wrapper: Any, kind: bytes) -> int:
    """Return the C object of an object of the binding."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(wrapper._o, kind))
