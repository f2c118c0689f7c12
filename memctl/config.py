"""Configured stores: `./memctl.toml`, then `$XDG_CONFIG_HOME/memctl/config.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memctl import addresses
from memctl.addresses import Address
from memctl.errors import UsageError

_STORE_KEYS = {"url", "schema", "table"}


@dataclass(frozen=True, slots=True)
class Config:
    """The stores that one file names."""

    path: Path
    default: str | None
    stores: Mapping[str, Mapping[str, str]]
    trusted: bool
    """Whether it is the user's own: only then may it name a `python:` address, which runs code."""

    def address(self, name: str) -> Address | None:
        """Return the address configured under `name`, None when this file has none."""
        entry = self.stores.get(name)
        if entry is None:
            return None
        address = self.read(entry["url"], f"store {name!r}")
        return address.with_defaults(entry.get("schema"), entry.get("table"))

    def read(self, text: str, what: str) -> Address:
        """Return an address that stands in this file; a relative path is taken from the file's folder.

        Raises UsageError, which calls it `what`.
        """
        try:
            address = addresses.parse(text)
        except UsageError as error:
            raise UsageError(f"{what} in {self.path}: {error.message}", hint=error.hint) from None
        if address.scheme == "python" and not self.trusted:
            raise UsageError(
                f"{what} in {self.path} is a python: address, which runs code",
                hint="name it with -s, in MEMCTL_STORE or in your own config.toml",
            )
        return address.relative_to(self.path.parent)


def load(folder: Path, variables: Mapping[str, str]) -> tuple[Config, ...]:
    """Read the configuration files that exist, the nearest first. Raises UsageError for a broken one."""
    home = variables.get("XDG_CONFIG_HOME") or str(
        Path(variables.get("HOME") or "~").expanduser() / ".config"
    )
    candidates = ((folder / "memctl.toml", False), (Path(home) / "memctl" / "config.toml", True))
    return tuple(_read(path, trusted) for path, trusted in candidates if path.is_file())


def _read(path: Path, trusted: bool) -> Config:
    import tomllib

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    default, stores = document.get("default"), document.get("stores", {})
    if default is not None and not isinstance(default, str):
        raise UsageError(f"{path}: default has to be the name or address of a store, in quotes")
    if not isinstance(stores, dict) or not all(map(_is_store, stores.values())):
        raise UsageError(
            f"{path}: each store is a table with url, and schema and table if they differ",
            hint='[stores.dev]\nurl = "./memory.db"',
        )
    return Config(path, default, stores, trusted)


def _is_store(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and "url" in entry
        and entry.keys() <= _STORE_KEYS
        and all(isinstance(value, str) for value in entry.values())
    )
