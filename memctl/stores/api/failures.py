"""What an exception of somebody else's code means: told by its name and those of its bases.

The drivers that stores are built on have exceptions of their own, which memctl does not import.
"""

from __future__ import annotations

import re

from memctl.errors import Busy, MemctlError, Refused, Unreachable

_UNREACHABLE = {"ConnectionError", "TimeoutError", "ConnectionFailure", "ConnectError", "gaierror"}
_REFUSED = {"AuthenticationError", "PermissionError", "NoPermissionError", "NoCredentialsError"}
"""Names of exceptions, Python's own and those of the drivers that stores are built on."""
INSTALLED_HINT = "modules are looked for in this folder and in the environment that memctl is installed in"
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]*@")


def failure(address: str, error: BaseException) -> MemctlError:
    """Return what an exception of somebody else's code means, told by its name and those of its bases."""
    names = {base.__name__ for base in type(error).__mro__}
    said = _CREDENTIALS.sub("", str(error)).strip().split("\n")[0]
    message = f"{address}: {type(error).__name__}{': ' if said else ''}{said}"
    if names & _REFUSED:
        return Refused(message)
    if names & _UNREACHABLE:
        return Unreachable(message)
    if isinstance(error, ModuleNotFoundError):
        return MemctlError(message, hint=INSTALLED_HINT, code="store-failed")
    if "locked" in said:
        return Busy(message)
    return MemctlError(message, code="store-failed")
