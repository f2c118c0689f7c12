"""Whether one search can span the memories of several users."""

from __future__ import annotations

from dataclasses import dataclass, field

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.model import Scope
from memctl.namespaces import show

CATEGORIES = frozenset({
    "chat", "chats", "conversation", "conversations", "episodes", "episodic", "fact", "facts", "files",
    "filesystem", "histories", "history", "insights", "interactions", "memories", "memory", "messages",
    "note", "notes", "preference", "preferences", "prefs", "profile", "profiles", "reminders", "semantic",
    "session", "sessions", "settings", "snippets", "summaries", "summary",
})  # fmt: skip
"""Labels that say what is remembered of somebody, and never of whom; compared without case."""
_FEWEST_TENANTS = 2


class Tenancy(Check):
    """Namespaces laid out so that a search, or a wrong one, crosses from one user to another."""

    id = "tenancy"
    level = Level.NOTE
    summary = (
        "namespaces that begin with the category, so that one search spans every user, and items directly under"
        " a one-label namespace that all users share"
    )
    is_quick = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._roots: dict[str, _Root] = {}

    def namespace(self, prefix: str) -> None:
        """Take note of what stands under a category."""
        name, dot, rest = prefix.partition(".")
        if name.casefold() not in CATEGORIES:
            return
        root = self._roots.setdefault(name, _Root(name))
        root.namespaces += 1
        if not dot:
            root.is_held = True
        elif (label := rest.partition(".")[0]) and label.casefold() not in CATEGORIES:
            root.tenants.add(label)

    def finish(self) -> Finding:
        """Tell how many tenants each prefix exposes."""
        roots = [root for root in self._roots.values() if root.is_first or root.is_held]
        if not roots:
            return self.fine()
        first = [root for root in roots if root.is_first]
        shared = [root for root in roots if root.is_held]
        for root in roots:
            details = [f"{root.tenants.count:,} tenants under one prefix"] if root.is_first else []
            details += ["items that every user shares"] if root.is_held else []
            self.sample(root.name, None, "; ".join(details))
        sentences = []
        if first:
            widest = max(first, key=lambda root: root.tenants.count)
            sentences.append(
                f"With the category in front, one search in {show(widest.name)!r} returns the memories of"
                f" {widest.tenants.count:,} users. Put the user in front, in the program and with mv."
            )
        if shared:
            names = ", ".join(repr(show(root.name)) for root in shared[:3])
            sentences.append(f"Items directly in {names} are everybody's: nothing tells whose they are.")
        return self.found(
            " ".join(sentences),
            brief="prefixes that span several users",
            count=len(roots),
            fix=self._move(first[0]) if first else None,
            table=[self._row(root) for root in roots],
        )

    def _row(self, root: _Root) -> dict[str, object]:
        scope = Scope(root.name, descend=False)
        items: int | None = 0
        if root.is_held:  # counting reads the rows
            found = None if self.settings.quick else next(self.patient.store.namespaces(scope), None)
            items = found.items if found else None
        return {
            "namespace": [root.name],
            "tenants": root.tenants.count,
            "namespaces": root.namespaces,
            "items_directly": items,
        }

    def _move(self, root: _Root) -> str:
        """Return the `mv` that puts the tenant first: its braces are variables, not labels."""
        name = show(root.name)
        return self.patient.command("mv", names=(f"{name}.{{user}}", f"{{user}}.{name}"))


class Distinct:
    """Counts different labels at one place of namespaces that come in byte order.

    A label can come again after longer ones that begin with it (`a`, `a-b`, `a`), after others never.
    """

    def __init__(self) -> None:
        self.count = 0
        self._open: list[str] = []

    def add(self, label: str) -> None:
        """Take the next label."""
        opened = self._open
        while opened and not label.startswith(opened[-1]):
            opened.pop()
        if label not in opened:
            opened.append(label)
            self.count += 1


@dataclass(slots=True)
class _Root:
    name: str
    namespaces: int = 0
    is_held: bool = False
    """Whether items are directly in it."""
    tenants: Distinct = field(default_factory=Distinct)

    @property
    def is_first(self) -> bool:
        """Whether it stands before several tenants."""
        return self.tenants.count >= _FEWEST_TENANTS
