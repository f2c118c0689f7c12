"""What `memctl doctor` is asked for, judged as far as it can be without a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memctl.doctor import CHECKS, check_class
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memctl.cli.context import Context
    from memctl.doctor.check import Check, Settings
    from memctl.model import Item
    from memctl.namespaces import Pattern
    from memctl.store import Store

_LEVELS = ("error", "warning", "note")
_ALL = "all"


def check_ids(incomplete: str) -> list[str]:
    """Complete the last of several ids; what stands before it stays."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in CHECKS if name.startswith(last)]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, judged as far as it can be without a store."""

    context: Context
    pattern: Pattern | None
    checks: tuple[type[Check], ...]
    fixes: tuple[type[Check], ...]
    named: frozenset[str]
    """The repairs that were named, and not only meant by `all`."""
    save: str | None
    vacuum: bool
    fail_on: str
    quick: bool
    is_detailed: bool
    against: str | None
    assume_overwritten: bool
    dims: int | None
    threshold: float | None
    subject_field: str | None
    source_field: str | None

    @classmethod
    def read(
        cls,
        context: Context,
        ns: str | None,
        *,
        check: Sequence[str],
        skip: Sequence[str],
        fix: Sequence[str],
        save: str | None,
        vacuum: bool,
        fail_on: str,
        quick: bool,
        against: str | None = None,
        assume_overwritten: bool = False,
        dims: str | None = None,
        threshold: str | None = None,
        subject_field: str | None = None,
        source_field: str | None = None,
    ) -> Request:
        """Judge what was given. Raises UsageError."""
        from memctl import namespaces

        if fail_on not in _LEVELS:
            raise UsageError(f"--fail-on {fail_on}: error, warning or note is expected")
        only = _ids("--check", check) or list(CHECKS)
        left_out = set(_ids("--skip", skip))
        fixes = _fixes(_ids("--fix", fix, also=_ALL), against=against)
        _refuse_alone(fixes, save=save, vacuum=vacuum, quick=quick, dry_run=context.is_dry_run)
        if save is None and (losing := [each.id for each in fixes if each.must_save]):
            raise UsageError(
                f"--fix {losing[0]} takes items away, and needs --save FILE to keep them in",
                code="needs-save",
            )
        return cls(
            context,
            namespaces.parse(ns) if ns is not None else None,
            tuple(check_class(name) for name in CHECKS if name in only and name not in left_out),
            fixes,
            frozenset(_ids("--fix", fix, also=_ALL)),
            save,
            vacuum,
            fail_on,
            quick,
            bool(check) or context.is_verbose,
            against,
            assume_overwritten,
            _positive("--dims", dims),
            _share("--threshold", threshold),
            subject_field,
            source_field,
        )

    def list_checks(self) -> None:
        """Show the checks that were chosen."""
        from memctl.cli.doctor_report import CHECK_COLUMNS, check_row

        self.context.emit(CHECK_COLUMNS, map(check_row, self.checks))

    def settings(self, store: Store) -> Settings:
        """Return what the checks are told."""
        from memctl.doctor.check import Settings

        defaults = Settings(store.now())
        return Settings(
            now=store.now(),
            pattern=self.pattern,
            invocation=invocation(self.context, store),
            quick=self.quick,
            dims=self.dims,
            threshold=defaults.threshold if self.threshold is None else self.threshold,
            subject_field=self.subject_field,
            source_field=self.source_field,
            assume_overwritten=self.assume_overwritten,
            vacuum=self.vacuum,
            against=self._against(),
            against_name=self.against,
        )

    def _against(self) -> Callable[[], Iterator[Item]] | None:
        if self.against is None:
            return None
        from memctl.cli.sides import items_of, open_other

        named, pattern, context = self.against, self.pattern, self.context

        def items() -> Iterator[Item]:
            with open_other(context, named, snapshot=True) as side:
                yield from items_of(side, pattern)

        return items


def _ids(option: str, given: Sequence[str], also: str | None = None) -> list[str]:
    """Read ids by comma. Raises UsageError for one that is none."""
    ids = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in ids:
        if name not in CHECKS and name != also:
            raise UsageError(f"{option} {name}: there is no such check", hint=f"known: {', '.join(CHECKS)}")
    return ids


def _fixes(ids: Sequence[str], *, against: str | None) -> tuple[type[Check], ...]:
    """Return the checks whose findings are to be repaired, in the order of the report."""
    from memctl.doctor.check import can_repair

    for name in ids:
        if name != _ALL and not can_repair(check_class(name)):
            raise UsageError(
                f"--fix {name}: memctl knows no repair for it",
                hint=f"`memctl doctor --check {name}` says what can be done by hand",
            )
    chosen = set(ids)
    if _ALL in chosen:
        chosen |= {
            name
            for name in CHECKS
            if can_repair(check_class(name))
            and not (check_class(name).by_name_only or check_class(name).must_save)
            and (name != "created-at-drift" or against is not None)
        }
    return tuple(check_class(name) for name in CHECKS if name in chosen)


def _refuse_alone(
    fixes: Sequence[type[Check]], *, save: str | None, vacuum: bool, quick: bool, dry_run: bool
) -> None:
    """Raise UsageError for what only goes with --fix, or not with it."""
    for option, is_given in (("--save", save is not None), ("--vacuum", vacuum), ("--dry-run", dry_run)):
        if is_given and not fixes:
            raise UsageError(f"{option} goes with --fix: the doctor changes nothing without it")
    if quick and fixes:
        raise UsageError("--quick only looks; leave it out to repair")


def _positive(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError(f"{option} {text}: a whole number from 1 on is expected")
    return int(text)


def _share(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise UsageError(f"{option} {text}: a number above 0, up to 1, is expected")
    return value


def invocation(context: Context, store: Store | None) -> tuple[str, ...]:
    """Return how memctl was told of the store, for commands that can be pasted; never with a password."""
    from memctl import addresses

    words = ["memctl"]
    given: list[str] = context.options.get("store") or []
    if given:
        is_public = addresses.is_public(given[-1])
        words += ["-s", given[-1] if is_public or store is None else store.address]
    for name in ("schema", "table"):
        if value := context.options.get(name):
            words += [f"--{name}", str(value)]
    return tuple(words)
