"""What a check is, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from memctl.doctor.finding import Finding, Level, Sample, Status
from memctl.doctor.wording import command
from memctl.guard import Guarded, State
from memctl.model import EVERYTHING, Detail, Instant, Item, Scope
from memctl.namespaces import Pattern, show
from memctl.store import Capability, Change, Described, Description, Store
from memctl.values import decode_quick

if TYPE_CHECKING:
    from memctl.doctor.surgery import Surgery

MOST_SAMPLES = 5

has_vectors = attrgetter("vectors")
"""For `filter`: passes over items without vectors ten times as fast as a call for each."""

UNREADABLE = object()
"""Stands for a value that is no JSON."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose.

    `invocation` are the words with which memctl was told of the store, `memctl -s dev.db`: every command that
    is suggested begins with them. `against` opens another store or archive, and gives its items of the scope
    in byte order; each call begins anew.
    """

    now: Instant
    pattern: Pattern | None = None
    invocation: tuple[str, ...] = ("memctl",)
    quick: bool = False
    dims: int | None = None
    threshold: float = 0.95
    subject_field: str | None = None
    source_field: str | None = None
    assume_overwritten: bool = False
    vacuum: bool = False
    against: Callable[[], Iterator[Item]] | None = None
    against_name: str | None = None

    @property
    def scope(self) -> Scope:
        """The key range that is examined."""
        return self.pattern.scope if self.pattern else EVERYTHING

    @property
    def spelled(self) -> str:
        """The scope as a user writes it; empty for everything."""
        labels = self.pattern.labels if self.pattern else ()
        return ".".join("*" if label is None else show(label) for label in labels)


class Patient:
    """The store under examination, and what is known of it: the same for all checks of one examination."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.capabilities = store.capabilities
        self.now = settings.now
        self._decoded: Any = None
        self._of: Item | None = None

    @cached_property
    def description(self) -> Description | None:
        """The live schema, looked at once; None for a store that does not show it."""
        return self.store.describe() if isinstance(self.store, Described) else None

    def value_of(self, item: Item) -> Any:
        """Return an item's value decoded, or UNREADABLE; however many checks ask, it is decoded once."""
        if item is not self._of:
            self._of = item
            try:
                self._decoded = decode_quick(item.value) if item.value is not None else UNREADABLE
            except (ValueError, RecursionError):
                self._decoded = UNREADABLE
        return self._decoded

    def command(self, *words: str, names: Sequence[str] = ()) -> str:
        """Return a memctl command for this store, quoted for a shell.

        `names` are namespaces, spelled by `namespaces.show`, and keys: `--` keeps them from being taken for
        options.
        """
        guard = ("--",) if any(name.startswith("-") for name in names) else ()
        return command(*self.settings.invocation, *words, *guard, *names)

    def guarded(self, rule: str) -> str:
        """Return the sentence that proposes a rule of the guard, with a blank before; nothing where it is moot."""
        if not isinstance(self.store, Guarded):
            return ""
        states = {guard.rule: guard.state for guard in self.store.guards()}
        if states.get(rule) not in (State.ABSENT, State.OUTDATED):
            return ""
        return f" To keep it from coming back: {self.command('guard', 'install', '--only', rule)}"

    def fix_command(self, check_id: str, *words: str) -> str:
        """Return the command by which the doctor itself repairs what a check found in this scope."""
        names = (self.settings.spelled,) if self.settings.pattern else ()
        return self.command("doctor", "--fix", check_id, *words, names=names)


class Check:
    """One thing that can be wrong with a store. An instance serves one examination.

    The runner reads the scope once for all checks, and calls what a class defines of `namespace`, `item` (or
    `items`) and `orphan`, in byte order; then `finish`. A check that can be repaired item by item defines
    `cure`, which is asked in a second pass over the same scope, after `finish`, of the same instance; one that
    is repaired in another way defines `repair`. Detection and repair use one predicate.
    """

    id: ClassVar[str]
    level: ClassVar[Level]
    summary: ClassVar[str]
    """What it finds, in one line, for `--list-checks` and the documentation."""
    remedy: ClassVar[str | None] = None
    """What its repair does, in a few words; None where there is none."""
    by_name_only: ClassVar[bool] = False
    """Whether its repair only runs when it is named: `--fix all` leaves it out."""
    must_save: ClassVar[bool] = False
    """Whether its repair takes things away that have to be kept: it needs `--save`."""
    unit: ClassVar[Literal["items", "vectors", "parts"]] = "items"
    """What `count` counts, of what a repair counts (`surgery.Healed`)."""
    needs: ClassVar[frozenset[Capability]] = frozenset()
    """Without one of these the check is skipped."""
    values: ClassVar[bool] = False
    """Whether `item` looks into values."""
    vectors: ClassVar[Detail] = Detail.NONE
    """What `item` needs of the vectors."""
    is_quick: ClassVar[bool] = False
    """Whether `--quick` includes it: indexes alone answer. `item` then only gets items whose expiry has come,
    without value and vectors, and those whose expiry cannot be read."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.settings = patient.settings
        self.count = 0
        self.caveat: str | None = None
        """What else goes with a repair, if `finish` found that something does."""
        self._samples: list[Sample] = []

    def absent(self) -> str | None:
        """Return why this store cannot be checked, beyond its capabilities; None if it can."""
        return None

    def namespace(self, prefix: str) -> None:
        """Take a namespace that directly holds items; called before its first item."""
        raise NotImplementedError

    def items(self, items: Sequence[Item]) -> None:
        """Take items of one namespace that follow one another; there may be more of it to come.

        Most checks define `item`; one that can pass over many at once defines this.
        """
        for item in items:
            self.item(item)

    def item(self, item: Item) -> None:
        """Take an item of the scope."""
        raise NotImplementedError

    def orphan(self, item: Item) -> None:
        """Take vectors that have no item: an item of that name without value and times, with the vectors."""
        raise NotImplementedError

    def finish(self) -> Finding:
        """Return the answer."""
        raise NotImplementedError

    def cure(self, item: Item) -> Change | None:
        """Return the change that heals an item, or None for one that is well or cannot be healed."""
        raise NotImplementedError

    def repair(self, surgery: Surgery) -> None:
        """Repair what is no matter of single items; see `surgery`."""
        raise NotImplementedError

    @property
    def wants_samples(self) -> bool:
        """Whether another sample would be kept, so that its detail is worth the words."""
        return len(self._samples) < MOST_SAMPLES

    def sample(self, prefix: str | None, key: str | None, detail: str) -> None:
        """Remember an example, if it is among the first; what is shown comes in order, and so do they."""
        if self.wants_samples:
            self._samples.append(Sample(prefix, key, detail))

    def found(
        self,
        message: str,
        *,
        brief: str,
        count: int | None = None,
        level: Level | None = None,
        octets: int | None = None,
        fix: str | None = None,
        table: Sequence[Mapping[str, Any]] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> Finding:
        """Return what was found, with the count and the samples so far."""
        return Finding(
            id=self.id,
            level=level or self.level,
            status=Status.FOUND,
            count=self.count if count is None else count,
            octets=octets,
            samples=tuple(self._samples),
            message=message,
            brief=brief,
            fix=fix,
            table=tuple(table),
            facts=facts,
        )

    def fine(self, message: str = "", *, facts: Mapping[str, Any] | None = None) -> Finding:
        """Return that nothing is wrong; `message` may tell what is worth knowing all the same."""
        return Finding(self.id, self.level, Status.OK, message=message, facts=facts)


def defines(check: type[Check] | Check, name: str) -> bool:
    """Tell whether a check has a hook of its own, such as `item` or `cure`."""
    kind = check if isinstance(check, type) else type(check)
    return getattr(kind, name) is not getattr(Check, name)


def reads_items(check: type[Check] | Check) -> bool:
    """Tell whether a check looks at items."""
    return defines(check, "item") or defines(check, "items")


def can_repair(check: type[Check] | Check) -> bool:
    """Tell whether there is a repair for what a check finds."""
    return defines(check, "cure") or defines(check, "repair")
