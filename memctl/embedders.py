"""Turning a question into a vector: `--embed`.

An embedder runs code, so its name is only ever taken from the command line.
"""

from __future__ import annotations

import inspect
import sys
from array import array
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memctl.errors import MemctlError, UsageError

_HINT = "--embed local, --embed provider:model (openai:text-embedding-3-small) or --embed module:function"


def embed(spec: str, text: str, *, folder: Path) -> array[float]:
    """Embed `text` by the embedder that `spec` names: `local`, `provider:model` or `module:function`.

    A function gets a list of texts, as LangGraph's own index configuration calls it; an object with
    `embed_query` will do as well. Modules are looked for in `folder` too. Raises UsageError or MemctlError.
    """
    if spec == "local":
        return _floats(_local(text))
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{spec!r} names no embedder", hint=_HINT)
    found = _function(module, name, folder)
    try:
        return _floats(_call(found or _langchain(spec), text))
    except MemctlError:
        raise
    except Exception as error:
        raise MemctlError(f"the embedder {spec} failed: {error}", code="embedder") from error


def _local(text: str) -> Any:
    """The 256-dim model that the wheel `wordllama` carries; no key, no network."""
    try:
        import wordllama  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MemctlError(
            "--embed local needs the package wordllama",
            hint="pip install 'langgraph-memctl[local]'",
            code="missing-extra",
        ) from None
    home = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
    return model.embed([text], norm=True)[0].tolist()


def _function(module: str, name: str, folder: Path) -> Any:
    """Import `module:name` where both exist; None leaves the name to LangChain."""
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return None
    sys.path.insert(0, str(folder.absolute()))
    try:
        if find_spec(module.partition(".")[0]) is None:
            return None
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part, None)
    except Exception as error:
        raise MemctlError(f"the module {module} cannot be imported: {error}", code="embedder") from error
    finally:
        sys.path.pop(0)
    return found


def _langchain(spec: str) -> Any:
    try:
        from langchain.embeddings import init_embeddings
    except ImportError:
        raise MemctlError(
            f"--embed {spec} needs LangChain",
            hint="pip install 'langgraph-memctl[embed]' and the provider's own package",
            code="missing-extra",
        ) from None
    try:
        return init_embeddings(spec)
    except (ValueError, ImportError) as error:
        raise UsageError(f"{spec!r} names no embedder: {error}", hint=_HINT) from None


def _call(embedder: Any, text: str) -> Any:
    if inspect.isclass(embedder):
        embedder = embedder()
    if hasattr(embedder, "embed_query"):
        return embedder.embed_query(text)
    if not callable(embedder):
        raise UsageError("the embedder is neither a function nor an object with embed_query", hint=_HINT)
    result: Any = embedder([text])
    if inspect.isawaitable(result):
        import asyncio

        result = asyncio.run(_awaited(result))
    return result


async def _awaited(result: Any) -> Any:
    return await result


def _floats(result: Any) -> array[float]:
    """Take a vector, or a list of one vector; numpy arrays will do."""
    listed: Sequence[Any] = result.tolist() if hasattr(result, "tolist") else list(result)
    if listed and isinstance(listed[0], list | tuple):
        listed = listed[0]
    try:
        vector = array("f", map(float, listed))
    except (TypeError, ValueError) as error:
        raise MemctlError(f"the embedder did not return numbers: {error}", code="embedder") from None
    if not vector:
        raise MemctlError("the embedder returned an empty vector", code="embedder")
    return vector
