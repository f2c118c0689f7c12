"""What a role may do to the store's tables, asked before it is tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memctl.errors import Refused

if TYPE_CHECKING:
    from memctl.store import Right
    from memctl.stores.postgres.connect import Session
    from memctl.stores.postgres.layout import Layout

IS_ALLOWED = (
    """SELECT wanted FROM unnest(%s::text[]) AS wanted WHERE NOT has_table_privilege(%s::oid, wanted)"""
)


def check_rights(session: Session, layout: Layout, rights: Sequence[Right]) -> None:
    """Raise Refused for want of a right; vectors that go by a cascade need no DELETE."""
    for table in (layout.items, layout.vectors):
        if table is None:
            continue
        is_cascade = table is layout.vectors and layout.cascade
        wanted = [right for right in rights if not (is_cascade and right == "DELETE")]
        missing = [right for (right,) in session.fetch(IS_ALLOWED, [wanted, table.oid])]
        if missing:
            raise Refused(
                f"{session.address_in(layout.schema)}: permission denied: "
                f"no {', '.join(missing)} on table {table.name}",
                hint=f"this needs SELECT, {', '.join(rights)} on the store's tables",
            )
