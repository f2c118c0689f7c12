"""The archive: items of any store as JSON Lines, exact and checked; what export writes and import reads.

    {"memctl_archive":1,"source":…,"created":…,"dims":…,"vector_type":…,"scope":…,"items":N,"vectors":M,"missing":[…]}
    {"namespace":[…],"key":…,"value":…,"created_at":…,"updated_at":…,"expires_at":…,"ttl_minutes":…,"vectors":[…]}
    {"block":1,"lines":1000,"sha256":…,"last":[prefix,key]}
    {"end":true,"items":N,"vectors":M,"sha256":…}

- Lines end in a line feed, and so does the last one. Items stand in byte order of (prefix, key); what is a BLOB
  there comes behind all text.
- A block line follows every 1,000 lines of items; its `sha256` covers the octets of those lines, line feeds
  included, and neither the header nor the block line itself. Fewer than 1,000 lines at the end have no block
  line. The end line's `sha256` covers every octet before it, header and block lines included.
- `value` is the stored JSON text, but for line breaks between tokens, which become spaces. `value_base64`
  stands in its place where the octets are no JSON in UTF-8, and is null where the column is null.
- `key_base64` and `prefix_base64` give the octets where `key` and `namespace` can only be shown with U+FFFD.
- Where a column holds something odd, `created_at_raw`, `updated_at_raw`, `expires_at_raw`, `ttl_minutes_raw`,
  `key_raw` or `prefix_raw` says what, beside the best reading of it:
  `{"type":"text","value":…,"reason":…}`. Types are SQL's: `text`, `blob` (value in base64), `integer`,
  `real`, `timestamptz`; text that is no UTF-8 has `base64` in place of `value`.
- A vector is `{"field","embedding","created_at","updated_at"}`, the embedding as base64 of little-endian
  float32, null where the column is null; `field_base64` and the `_raw` members as above, `embedding_raw` where
  the column holds something else than octets.
- What `missing` names is left out of the lines: `vectors`, `vector-times`, `expiry`, `timestamps`.
- `scope` spells the labels of the namespace that was asked for, `*` for any one; `[]` is the whole store.
  `filtered` is true where items were chosen by more than that. `items` and `vectors` are null in the header
  of an archive whose source could not be held still while it was read.
- `"vectors_only":true`: the line holds vectors whose item is elsewhere or gone.

Operations: no store is opened here. `write` takes items as they come; `read` gives lines, and tells an
archive from bare JSON Lines and from a JSON array, compressed or not; `verify` tells what is left of one.
"""

from memctl.archive.files import new_file, publish
from memctl.archive.format import (
    BLOCK_LINES,
    PARTS,
    BadLine,
    Damage,
    Damaged,
    Header,
    Line,
    Run,
    Totals,
    Unreadable,
)
from memctl.archive.reader import Reader, in_order, read
from memctl.archive.spelling import line_of
from memctl.archive.verify import Verdict, verify
from memctl.archive.writer import Writer, write, write_pieces

__all__ = [
    "BLOCK_LINES",
    "PARTS",
    "BadLine",
    "Damage",
    "Damaged",
    "Header",
    "Line",
    "Reader",
    "Run",
    "Totals",
    "Unreadable",
    "Verdict",
    "Writer",
    "in_order",
    "line_of",
    "new_file",
    "publish",
    "read",
    "verify",
    "write",
    "write_pieces",
]
