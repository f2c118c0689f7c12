"""What `python:package.module:store` names: a store, or something that returns one or a context manager.

This imports and runs somebody's code. Who may name such an address is decided where addresses are read.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

from memctl.errors import MemctlError, NoStore, UsageError
from memctl.stores.api.failures import INSTALLED_HINT, failure

_METHODS = ("search", "get", "put", "delete")


class Loaded:
    """A store that was found, and what has to be left when it is no longer needed."""

    def __init__(self, folder: Path) -> None:
        self.store: Any = None
        self.is_async = False
        self._exits = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        path = str(folder)
        if path not in sys.path:
            sys.path.insert(0, path)  # as `python -m` does
            self._exits.callback(lambda: sys.path.remove(path) if path in sys.path else None)

    def open(self, found: Any, name: str) -> None:
        """Take a store as it is; call anything else, enter what that gives, and wait for what has to be awaited.

        Raises NoStore where that comes to no store.
        """
        self.store = found if is_store(found) else self._made(found) if callable(found) else None
        if not is_store(self.store):
            raise NoStore(
                f"python:{name} is no BaseStore, and gives none",
                hint=f"a BaseStore has {', '.join(_METHODS)}",
            )

    def _made(self, factory: Callable[[], Any]) -> Any:
        made = factory()
        if inspect.isawaitable(made):
            self.is_async = True
            made = self.result(made)
        if hasattr(made, "__aenter__") and hasattr(made, "__aexit__"):
            self.is_async = True
            contexts = AsyncExitStack()
            entered = self.result(contexts.enter_async_context(made))
            self._exits.callback(lambda: self.result(contexts.aclose()))
            return entered
        if hasattr(made, "__enter__") and hasattr(made, "__exit__"):
            return self._exits.enter_context(made)
        return made

    def result(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for something in a loop of its own thread, where what was opened there lives."""
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="memctl-store", daemon=True)
            thread.start()
            self._exits.callback(_stop, loop, thread)
        return asyncio.run_coroutine_threadsafe(_wait(awaitable), self._loop).result()

    def close(self) -> None:
        """Leave every context that was entered."""
        self._exits.close()


def load(target: str, folder: Path) -> Loaded:
    """Import and open `module:attribute`; modules in `folder` come first.

    Raises UsageError for what is no such name, NoStore where no store is found under it.
    """
    module_name, _, path = target.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise UsageError(
            f"python:{target} is no address of a store",
            hint="python:package.module:store, where store is an object or a function that returns one",
        )
    loaded = Loaded(folder)
    try:
        with redirect_stdout(
            sys.stderr
        ):  # what memctl's own output goes to is no place for what a module prints
            loaded.open(_attribute(_module(module_name), path, target), target)
    except MemctlError:
        loaded.close()
        raise
    except BaseException as error:
        loaded.close()
        if not isinstance(error, Exception | SystemExit):
            raise
        raise failure(f"python:{target}", error) from error
    return loaded


def is_store(found: Any) -> bool:
    """Tell a store by its methods; a class is none yet."""
    return not isinstance(found, type) and all(callable(getattr(found, name, None)) for name in _METHODS)


def _module(name: str) -> Any:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoStore(
                f"there is no Python module {name!r}",
                hint=INSTALLED_HINT,
                code="missing",
            ) from None
        raise


def _attribute(module: Any, path: str, target: str) -> Any:
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise NoStore(f"python:{target}: there is no {name!r} in it", code="missing") from None
    return found


async def _wait(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
