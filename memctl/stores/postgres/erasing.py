"""What is left of what was deleted in PostgreSQL, see `store.Erasing`: it never overwrites a row at once."""

from __future__ import annotations

LEFT = (
    "dead rows keep their octets until VACUUM has freed their space and something else is written there",
    "the write-ahead log holds the rows until it is recycled",
)
UNREACHABLE = (
    "backups, base backups and archived write-ahead log",
    "replicas and subscribers, which follow in their own time",
    "archives and exports, those that memctl wrote among them",
    "the server's own log, where it logs statements",
)
