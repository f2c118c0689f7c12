"""What memctl asks of a store.

One small protocol, implemented by each module in `stores/`; what only some stores can do is a `Capability`,
found by looking at the live schema when the store is opened.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, Protocol, runtime_checkable

from memctl.model import Detail, Instant, Item, Namespace, Position, Problem, Scope


class Capability(enum.StrEnum):
    """Something that not every store can do."""

    EXPIRY = "expiry"
    """Items have `expires_at` and `ttl_minutes`, and both can be read."""
    VECTORS = "vectors"
    """Items have embeddings, and they can be read."""
    VECTOR_TIMES = "vector-times"
    """Vectors have `created_at` and `updated_at` of their own."""
    CASCADE = "cascade"
    """The database itself deletes an item's vectors with the item."""
    KEEPS_CREATED = "keeps-created"
    """`created_at` survives an overwrite through the library."""
    SNAPSHOT = "snapshot"
    """A whole command reads one consistent state without keeping a writer waiting."""
    TIMES = "times"
    """`created_at` and `updated_at` can be set, so that a copy keeps them."""
    RAW_TEXT = "raw-text"
    """Values are the JSON text that was written, byte by byte, valid or not."""


class Store(Protocol):
    """An open store. Reading never changes it: no TTL is refreshed, no table created.

    Errors are those of `memctl.errors`; a row that cannot be decoded is an `Item` with `problems`, never
    an error. Iterators are lazy, hold a bounded amount of memory, and must be consumed before `close`.
    """

    kind: str
    """`sqlite`, `postgres`, …: what an archive names as its source."""
    address: str
    """Where it is, without secrets."""
    capabilities: frozenset[Capability]
    lock_seconds: float
    """How long making this snapshot kept writers waiting; 0 for what is none."""
    moved: bool
    """Whether someone else was seen to commit between two parts of a read that is no snapshot."""

    def now(self) -> Instant:
        """Return the time on the store's own clock, read once and the same for the store's lifetime."""
        ...

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        """Yield each namespace in `scope` that directly holds items, in byte order of `prefix`."""
        ...

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,
        vectors: Detail = Detail.NONE,
        keep: Callable[[bytes | None], bool] | None = None,
    ) -> Iterator[Item]:
        """Yield the items in `scope` in byte order of (prefix, key), from the first one past `after`.

        An item's vectors come in byte order of `field`. Without `values`, `value` is None and `size` is
        still right. `keep` is asked about each value before anything else of the row is decoded, and those
        it declines are passed over; it needs `values`.
        """
        ...

    def get(self, prefix: str, keys: Sequence[str], *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield those items of exactly the namespace `prefix` that exist, in the order of `keys`."""
        ...

    def snapshot(self) -> AbstractContextManager[Store]:
        """Give a store that shows this one as it is at one moment, however long it is read.

        Where reading keeps no writer waiting that is the store itself, in one transaction; a SQLite file in
        rollback-journal mode is copied to a private temporary file, removed at the end. What that cost the
        writers stands in `lock_seconds` of what is given.
        """
        ...

    def close(self) -> None:
        """Release the connection; a second call does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """How a store's tables are to be made: `memctl init`.

    Without `dims` there are no vector tables. `index` and `metric` are Postgres' own; SQLite keeps vectors
    of any width and chooses the metric with each question.
    """

    dims: int | None = None
    vector_type: str = "vector"
    index: str = "hnsw"
    metric: str = "cosine"


@dataclass(frozen=True, slots=True)
class Batch:
    """Items to be written together, in one transaction.

    `new` are not there yet; one that is there by now is left alone and counted. `changed` are there, and
    become exactly what is given: value, times, expiry and vectors. With `only_older`, one whose `updated_at`
    has moved past the new one by now is left alone and counted.
    """

    new: Sequence[Item] = ()
    changed: Sequence[Item] = ()
    only_older: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one item, given as it was read; without `was` it is new, without `becomes` it goes.

    An item goes with every vector under its name. One that becomes an item of another name is renamed, with
    its vectors, as it is stored. Else those columns are set that differ between the two; a `becomes` without
    value leaves the value alone; a vector that only `was` has is deleted, one that only `becomes` has is
    inserted, and both may be read in `Detail.SHAPE` where no embedding is to be inserted. A column that could
    not be decoded keeps what it holds for as long as `becomes` carries its problem.

    A renamed item may take the place of `over`, the item of its new name as it was read: that one goes, or
    neither of the two is touched.
    """

    was: Item | None
    becomes: Item | None
    over: Item | None = None


@runtime_checkable
class Judging(Protocol):
    """A store that tells what it cannot hold, opened for writing or not.

    One that is only read may know less: what nobody but the server can tell counts as held.
    """

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what of this item the store cannot hold exactly, as `Writable.unholdable` does."""
        ...


@runtime_checkable
class Writable(Protocol):
    """A store opened for writing. Every call is one transaction: a call that fails has changed nothing.

    Items are written before vectors, existing ones by UPDATE and new ones by INSERT. Timestamps, expiry,
    TTL and embeddings arrive as given, to the microsecond and the bit, in the library's own spellings.
    """

    batch_rows: int
    """How many items a batch should have, so that an agent's own writes hardly wait."""
    pause: float
    """Seconds to leave between two batches."""

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what of this item the store cannot hold exactly, without writing: `part` and `reason`.

        Parts are `namespace`, `key`, `value`, `created_at`, `updated_at`, `expires_at`, `ttl_minutes`,
        `vectors`. The text of a reason is the same for the same kind of fault, so that it can be counted.
        """
        ...

    def write(self, batch: Batch) -> tuple[Position, ...]:
        """Write a batch; return the places of the items that were left alone, see `Batch`."""
        ...

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Carry out changes, in their order and in one transaction; return those that were left alone.

        Left alone is an item that is no longer as it was read (its times, expiry or TTL differ; in a store
        that keeps whole seconds its value or size too), a new one that is there already, and one whose new
        name is taken by another than `over`. Items that an earlier change of the same call deletes or makes
        count as it leaves them.
        """
        ...

    def finish(self) -> None:
        """Build what was to wait until the rows are in: a vector index and its ledger row, once."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A store that keeps others waiting while it is written, and tells for how long its batch is to blame."""

    worked: float
    """Seconds for which the last `apply` held its lock, but for those that any commit takes on this disk."""


class Target(Store, Writable, Protocol):
    """A store that is open for writing."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the database has it: its columns in order, each with its declared type."""

    name: str
    columns: dict[str, str]
    rows: int | None = None
    """Exact where that is cheap, else None."""
    estimate: int | None = None
    """The database's own statistics, where it keeps any."""
    octets: int | None = None
    """Size on disk, indexes included, where the database can tell."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index on one of the store's tables."""

    name: str
    table: str
    definition: str
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Ledger:
    """A migration ledger against the schema: what it records, and what the tables really have."""

    table: str
    recorded: tuple[int, ...]
    known: tuple[int, ...]
    """The migrations of the newest library that memctl knows."""
    applied: tuple[int, ...]
    """The migrations whose effect is there."""

    @property
    def agrees(self) -> bool:
        """Whether the ledger tells the truth about the schema."""
        return set(self.recorded) & set(self.known) == set(self.applied)


@dataclass(frozen=True, slots=True)
class VectorSetup:
    """How embeddings are kept: SQL type, declared dims, and the ANN index's method and metric if any."""

    type: str
    dims: tuple[int, ...]
    """The declared width, or every width found among a sample of rows where none is declared."""
    index: str | None = None
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What `memctl info` tells about a store beyond its items."""

    backend: str
    version: str
    schema: str | None
    tables: tuple[Table, ...]
    ledgers: tuple[Ledger, ...]
    indexes: tuple[Index, ...]
    vectors: VectorSetup | None
    octets: int | None
    """Size of the store on disk."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Backend-specific: journal mode, collation, whether the session is read-only, …"""


@dataclass(frozen=True, slots=True)
class Count:
    """How much is in a scope; `vectors` are those whose item exists, `orphans` the others."""

    items: int
    vectors: int
    orphans: int


@runtime_checkable
class Counted(Protocol):
    """A store that counts without reading values."""

    def count(self, scope: Scope) -> Count:
        """Count what is in `scope`; in a store that is no snapshot this can keep writers waiting."""
        ...


@runtime_checkable
class Splittable(Protocol):
    """A store that several processes can read as of one moment."""

    def moment(self) -> str:
        """Return what another process opens this store with, to see exactly what this one sees.

        It is valid for as long as this one is open.
        """
        ...

    def cuts(self, scope: Scope, rows: int) -> Iterator[Position]:
        """Yield the place of every `rows`-th item in `scope`, but for the very last item."""
        ...


@runtime_checkable
class Lagging(Protocol):
    """A store that can be read as it was a while ago."""

    age: float
    """How many seconds ago; 0 for the present."""


@runtime_checkable
class Described(Protocol):
    """A store that can show the schema it lives in."""

    def describe(self) -> Description:
        """Return the live schema, without reading all rows."""
        ...


@runtime_checkable
class Narrow(Protocol):
    """A store behind an interface that shows, and can be given, less than a store has."""

    lost: frozenset[str]
    """Parts of an item that do not arrive as they are given, or cannot be seen to: they are told, not refused.

    Where it can, such a store is given an item's expiry as the time that is left.
    """


@runtime_checkable
class Expiring(Protocol):
    """A store that finds what has expired without reading everything."""

    def expiring(self, scope: Scope, until: Instant, *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield the items in `scope` whose expiry has come by `until`, in byte order and without values.

        Instants are compared, whatever their spelling. An item is among them, too, whose expiry is there and
        cannot be read as an instant: its `expires_at` is None, and `problems` says why. It takes
        `Capability.EXPIRY`. With its end a store may let go of its snapshot, so that what is then deleted goes.
        """
        ...


Right = Literal["INSERT", "UPDATE", "DELETE"]
"""What a role may have to be allowed, on items and on vectors."""


@runtime_checkable
class Permitting(Protocol):
    """A store that tells, opened for writing or not, whether it can be written."""

    def check_writing(self, *rights: Right) -> None:
        """Raise Refused for want of a permission; opened for writing, Busy too where somebody keeps it locked.

        Nothing is changed, and an agent waits no longer than for a commit. What shows only when it is tried may
        still be in the way.
        """
        ...


@runtime_checkable
class Erasing(Protocol):
    """A store that is open for writing and tells what of a deleted item is left in it, and elsewhere."""

    def secure(self) -> None:
        """Have whatever is deleted from now on overwritten at once, where the database can do that."""
        ...

    def scrub(self) -> tuple[str, ...]:
        """Overwrite what was deleted so far, by whomever; return why octets of it may be left, nothing for none.

        Reasons are whole sentences without a full stop.
        """
        ...

    overwrites: bool
    """Whether `scrub` can leave nothing, if nobody is in the way."""
    unreachable: tuple[str, ...]
    """Where else copies of what was deleted can be, in a few words each."""


@runtime_checkable
class Sweeping(Protocol):
    """A store, open for writing, that deletes what has expired without telling each item."""

    def sweep(self, scope: Scope, grace: timedelta, rows: int) -> Iterator[Sequence[Namespace]]:
        """Delete the items in `scope` that expired `grace` ago, with their vectors; yield how much after each batch.

        A batch of `rows` at most is one transaction, and decides by the clock at that moment; the next one is begun
        when it is asked for. An expiry that cannot be read is passed over.
        """
        ...


@dataclass(frozen=True, slots=True)
class Bulk:
    """What became of many items at once: how many there were, with how many vectors, and their values' octets."""

    items: int
    vectors: int
    octets: int
    passed_over: int = 0
    """Items beside these that were left as they are."""


@runtime_checkable
class Wholesale(Protocol):
    """A store, open for writing, that deletes or renames all items of a scope without telling each.

    Both go through the scope in byte order and yield how much after each batch. A batch is one transaction, which
    takes what is there and as it is by then; it has `rows()` items at most, asked for right before it is begun,
    and ends where their values come to `octets` in a store that keeps others waiting. Orphaned vectors stay where
    they are.
    """

    def remove(self, scope: Scope, rows: Callable[[], int], octets: int) -> Iterator[Bulk]:
        """Delete items with their vectors."""
        ...

    def rename(self, scope: Scope, new: str, rows: Callable[[], int], octets: int) -> Iterator[Bulk]:
        """Give the namespace of `scope`, and its descendants likewise, the name `new`; vectors go along.

        A batch of which a new name is taken, or a key is no text, is passed over as a whole. The two subtrees
        are disjoint.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ailment:
    """One thing about the database itself that is not as it should be; `code` is a stable word for it."""

    code: str
    message: str
    """Without a full stop."""
    brief: str = ""
    """The same in a few words."""
    count: int = 1
    octets: int | None = None
    remedy: str | None = None
    """What `Repairable.cure` does about it, in a few words; None where it can do nothing."""


@runtime_checkable
class Examined(Protocol):
    """A store that can be looked at more closely than its items show: what only the doctor asks for."""

    def orphans(self, scope: Scope, *, detail: Detail = Detail.SHAPE) -> Iterator[Item]:
        """Yield the vectors in `scope` that have no item: items of that name, in byte order.

        They have neither value nor times, and their vectors in byte order of `field`.
        """
        ...

    def prefixes(self, scope: Scope) -> Iterator[str]:
        """Yield each namespace in `scope` that directly holds items, in byte order, from an index alone."""
        ...

    def ailments(self, *, thorough: bool) -> Iterator[Ailment]:
        """Yield what is wrong with the database as such; `thorough` reads all of it."""
        ...

    def schema_faults(self) -> Iterator[Ailment]:
        """Yield where tables, columns, indexes and ledgers differ from what the library would have made."""
        ...


@runtime_checkable
class Repairable(Protocol):
    """A store that is open for writing and can be repaired where no single item is concerned."""

    def purge(self, orphans: Sequence[Item]) -> int:
        """Delete, in one transaction, these vectors of names that still have no item; return how many."""
        ...

    def cure(self, ailment: Ailment) -> str | None:
        """Do what the ailment's `remedy` says; return why not where that cannot be. Doing it twice is doing it once."""
        ...

    def vacuum(self) -> int:
        """Give free space back to the file system, if nobody is in the way; return how many octets."""
        ...


@runtime_checkable
class Twofold(Protocol):
    """A store whose vectors expire by themselves, and whose database deletes what has expired: CockroachDB's layout."""

    def ttl_jobs(self) -> dict[str, str | None]:
        """Return, by table, how often the job runs that deletes expired rows, as cron; None where it does not."""
        ...

    def unequal_expiries(self, scope: Scope) -> Iterator[Position]:
        """Yield the items in `scope` of which a vector expires at another time, in byte order."""
        ...


@runtime_checkable
class TwofoldTarget(Protocol):
    """A `Twofold` store that is open for writing."""

    def follow_expiry(self, places: Sequence[Position]) -> None:
        """Give the vectors of these items their items' expiry, in one transaction."""
        ...


@runtime_checkable
class Conversing(Protocol):
    """A store in whose database a checkpointer may keep the threads that its items were learnt in."""

    def keeps_threads(self) -> bool:
        """Tell whether the checkpointer's tables are beside the store's, and can be read."""
        ...

    def threads(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of these threads the checkpointer still has; it takes `keeps_threads`."""
        ...
