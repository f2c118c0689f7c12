"""What a sweep takes, by namespace and by rule: counted while it goes, shown before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from memctl.cli.tally import Tally
from memctl.model import shown
from memctl.namespaces import show
from memctl.sweeping import EXPIRED

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.model import Item, Namespace
    from memctl.render import Section
    from memctl.retention import Policy
    from memctl.store import Target
    from memctl.sweeping import Going

SAMPLES = 5
_NAMESPACES = 20
"""What people are shown; JSON has them all."""


@dataclass(slots=True)
class Swept:
    """What is swept, or would be.

    The object of `-o json` is a writing command's. In it `skipped` counts what was refreshed or rewritten
    meanwhile and stays, `rejected` what is too odd to be decided; `odd` has some of these: `namespace`, `key`,
    `problems`. `namespaces` are in byte order: `namespace`, `items`, `vectors`, `bytes`, and of a policy's sweep
    `rule`, its number, 0 for the items' own expiry. Its `rules` are all of the policy's in their order, the
    expiry first. `reclaimed` is what `--vacuum` gave back, in octets, null where it could not.
    """

    context: Context
    address: str
    policy: Policy | None
    total: Tally = field(default_factory=Tally)
    kept: int = 0
    """Refreshed or rewritten while it went on."""
    overtaken: int = 0
    """Written by somebody else each time it was tried."""
    expected: int | None = None
    _parts: dict[tuple[int, str], Tally] = field(default_factory=dict)
    _odd: int = 0
    _odd_parts: set[str] = field(default_factory=set)
    _samples: list[Item] = field(default_factory=list)
    _started: float = field(default_factory=monotonic)
    _reclaimed: int | None = None
    _has_vacuumed: bool = False

    def add(self, item: Item, rule: int) -> None:
        """Count an item that goes by a rule."""
        self.total.add(item)
        part = self._parts.get((rule, item.prefix))
        if part is None:
            part = self._parts[rule, item.prefix] = Tally()
        part.add(item)

    def add_all(self, found: Namespace) -> None:
        """Count what has expired in one namespace, and went."""
        part = self._parts.setdefault((EXPIRED, found.prefix), Tally())
        for tally in (self.total, part):
            tally.items += found.items
            tally.vectors += found.vectors
            tally.octets += found.octets

    def look_at(self, found: Iterable[Going]) -> None:
        """Count what would go."""
        for going in found:
            self.add(going.item, going.rule)

    def begin(self) -> None:
        """Count from nothing again: now it goes."""
        self.expected = self.total.items
        self.total, self._parts = Tally(), {}

    def doubt(self, item: Item) -> None:
        """Count an item that is too odd to be decided."""
        self._odd_parts.update(problem.part for problem in item.problems)
        self._odd += 1
        if len(self._samples) < SAMPLES:
            self._samples.append(item)

    def leave(self, going: Going) -> None:
        """Count an item that was another when it was read again, or could not be found by its name."""
        if any(problem.part in ("namespace", "key") for problem in going.item.problems):
            self.doubt(going.item)
        else:
            self.kept += 1

    def vacuum(self, target: Target) -> None:
        """Give space back, and say so where that cannot be."""
        from memctl.errors import MemctlError
        from memctl.store import Repairable

        self._has_vacuumed = True
        if not isinstance(target, Repairable):
            self.context.warn("this store gives back no space when asked", outcome=3)
            return
        try:
            self._reclaimed = target.vacuum()
        except MemctlError as error:
            self.context.warn(f"no space was given back: {error.message}", outcome=3)

    @property
    def is_news(self) -> bool:
        """Whether anything went, or was left."""
        return bool(self.total.items or self.kept or self.overtaken or self._odd)

    def question(self) -> str:
        """What to ask before it goes."""
        from memctl.render.units import counted

        what = f"{counted(self.total.items, 'item')} and {counted(self.total.vectors, 'vector')}"
        return f"{what} will be deleted from {self.address}."

    def preview(self) -> None:
        """Say how much goes by which rule."""
        from memctl.render.units import counted

        for row in self._rules():
            if row["items"]:
                spaces = len({prefix for rule, prefix in self._parts if rule == row["rule"]})
                amount = f"{counted(row['items'], 'item')} in {counted(spaces, 'namespace')}"
                self.context.note(f"{row['name']}: {amount}")

    def report(self) -> None:
        """Show it all; what was left undone counts in the exit code."""
        from memctl.render import Report
        from memctl.render.units import counted, octets

        context, total = self.context, self.total
        seconds = monotonic() - self._started
        data: dict[str, Any] = {
            **total.columns(),
            "skipped": self.kept + self.overtaken,
            "rejected": self._odd,
            "dry_run": context.is_dry_run,
            "seconds": round(seconds, 3),
            "store": self.address,
            "namespaces": [row for _, row in self._rows()],
            "odd": [self._sample(item) for item in self._samples],
        }
        if self.policy is not None:
            data["rules"] = self._rules()
        if self._has_vacuumed:
            data["reclaimed"] = self._reclaimed
        verb = "would be deleted" if context.is_dry_run else "deleted"
        what = f"{counted(total.items, 'item')} and {counted(total.vectors, 'vector')}"
        size = f" ({octets(total.octets)})" if total.octets else ""
        headline = f"{what}{size} {verb} in {seconds:.1f} s"
        if self.kept:
            headline += f"; {self.kept:,} refreshed or rewritten meanwhile, and left"
        if self._reclaimed is not None:
            headline += f"; {octets(self._reclaimed)} given back"
        context.emit_report(Report(data, tuple(self._sections()), headline))
        self._warn()

    def _warn(self) -> None:
        from memctl.render.units import counted

        for item in self._samples:
            self.context.warn(f"{show(shown(item.prefix))} {shown(item.key)!r}: {faults_of(item)}")
        if self._odd:
            more = self._odd - len(self._samples)
            self.context.warn(
                f"{counted(self._odd, 'item')} left for what is odd about them"
                + (f", {more:,} of them not listed" if more else "")
                + f": {self._remedy()}",
                outcome=3,
            )
        if self.overtaken:
            left = counted(self.overtaken, "item")
            self.context.warn(f"{left} left: somebody else kept writing meanwhile", outcome=3)

    def _remedy(self) -> str:
        """Say what helps; which times a rule counts from, it is not `expire` that sets."""
        ways: list[str] = []
        if self._odd_parts - {"value"}:
            ways.append("--include-odd trusts times that can be read")
        if "expires_at" in self._odd_parts:
            ways.append("`memctl expire` sets an expiry right")
        if self.policy is not None and self._odd_parts & {"created_at", "updated_at"}:
            ways.append("`memctl doctor --fix timestamps` spells an age anew, `memctl put` begins a new one")
        if "value" in self._odd_parts:
            ways.append("`memctl put` replaces a value that no filter can judge")
        return ", ".join(ways)

    def _sections(self) -> Iterator[Section]:
        from memctl.render import Column, Grid, Kind

        amounts = Column("items", Kind.COUNT), Column("vectors", Kind.COUNT), Column("bytes", Kind.OCTETS)
        if self.policy is not None:
            columns = Column("name", flexible=True), Column("keeps"), *amounts
            yield Grid("By rule", columns, self._rules())
        rows = sorted(self._rows(), key=lambda row: -int(row[1]["items"]))
        if not rows:
            return
        title = "By namespace"
        if len(rows) > _NAMESPACES:
            title += f", the largest {_NAMESPACES} of {len(rows):,}; -o json has them all"
        by = (Column("by", flexible=True),) if self.policy is not None else ()
        shown_rows = [{**row, "by": self._name(rule)} for rule, row in rows[:_NAMESPACES]]
        yield Grid(title, (Column("namespace", Kind.NAMESPACE, flexible=True), *by, *amounts), shown_rows)

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the namespaces in byte order, each with its rule."""
        from memctl.model import encode

        for (rule, prefix), tally in sorted(
            self._parts.items(), key=lambda entry: (encode(entry[0][1]), entry[0][0])
        ):
            which = {"rule": rule} if self.policy is not None else {}
            yield rule, {"namespace": shown(prefix).split("."), **which, **tally.columns()}

    def _rules(self) -> list[dict[str, Any]]:
        """Return the items' own expiry and the rules in their order, each with what goes by it."""
        sums: dict[int, Tally] = {}
        for (rule, _), tally in self._parts.items():
            total = sums.setdefault(rule, Tally())
            total.items += tally.items
            total.vectors += tally.vectors
            total.octets += tally.octets
        rules = self.policy.rules if self.policy else ()
        keeps = [(EXPIRED, "until it expires"), *((rule.number, rule.written) for rule in rules)]
        return [
            {
                "rule": number,
                "name": self._name(number),
                "keeps": words,
                **sums.get(number, Tally()).columns(),
            }
            for number, words in keeps
        ]

    def _name(self, number: int) -> str:
        if number == EXPIRED or self.policy is None:
            return "expired"
        return self.policy.rules[number - 1].name

    def _sample(self, item: Item) -> dict[str, Any]:
        problems = [{"part": each.part, "reason": each.reason} for each in item.problems]
        return {"namespace": shown(item.prefix).split("."), "key": shown(item.key), "problems": problems}


def faults_of(item: Item) -> str:
    """Say in one line what is odd about an item."""
    return "; ".join(f"{each.part}: {each.reason}" for each in item.problems)
