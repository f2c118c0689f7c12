"""The receipt of an erasure.

    {"memctl_receipt": 1, "subject": ["users.bo"], "started": …, "finished": …,
     "items": N, "vectors": N, "bytes": N, "skipped": N, "rejected": 0, "dry_run": false, "seconds": …,
     "orphans": N, "bytes_erased": true,
     "digest": {"algorithm": "sha256", "salt": HEX, "value": HEX},
     "stores": [{"store": …, "kind": …, "items": N, "vectors": N, "orphans": N, "history": N, "bytes": N,
                 "skipped": N,
                 "namespaces": [{"namespace": […], "items": N, "vectors": N, "bytes": N}],
                 "bytes_erased": true, "why_not": […], "cannot_reach": […],
                 "siblings": {"scopes": [[…]], "namespaces": N, "items_before": N, "items_after": N,
                              "vectors_before": N, "vectors_after": N, "digest_before": HEX,
                              "digest_after": HEX, "unchanged": true, "changed": N, "changed_namespaces": […]}}],
     "mentions": N, "mentioned": [{"store": …, "namespace": […], "key": …, "where": ["namespace", "key", "value"]}]}

- `items`, `vectors` and `bytes` (octets of values) count what was erased, `orphans` the vectors without an
  item, `history` the entries of the store's own history, their former values with them (those of the items'
  own deletion among them, which a dry run does not foresee), `skipped` the items that somebody else kept writing.
  `bytes_erased` is true where no octet of any of it is left in the stores, and each store's `why_not` says why
  not; `cannot_reach` is where else copies can be. Where something ended it early (an error, Ctrl-C), `why_not`
  begins with that, and says so of the stores that were not reached; the counts are what was erased until then.
- `digest` is SHA-256 over the salt's octets and then, in byte order, each once, the names that were erased, those
  of orphans among them: namespace as stored, tab, key, line feed. Whoever has kept the list can prove that it is
  the one that was erased; without it the receipt tells no key.
- `siblings` covers what lies under the same parents beside the subject's namespaces; the digests are over every
  part of every item and vector. `changed` counts the namespaces that an agent wrote to meanwhile, or else lost
  something; the names of some are given.
- `mentioned` lists up to 1,000 of the items elsewhere that name the subject, by `--mentions` or in a dry run;
  it and `mentions` are null where nobody has looked for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memctl.cli.erasure import mention_row
from memctl.errors import MemctlError
from memctl.instants import from_datetime
from memctl.model import encode, shown

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.cli.erasure import Erasure
    from memctl.render import Section

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased, and what of it is left."""

    context: Context
    subject: Sequence[str]
    erasures: list[Erasure]
    salt: bytes
    digest: str
    started: datetime
    seconds: float

    def hand_out(self, file: str | None) -> None:
        """Show it, write it to a file if one is named, and let what is left count in the exit code.

        A file that cannot be written counts likewise; the receipt is shown all the same, there is no other.
        """
        from memctl.render import Report

        data = self._data()
        if file is not None and not self.context.is_dry_run:
            try:
                self._write(data, file)
            except (MemctlError, OSError) as error:
                said = error.message if isinstance(error, MemctlError) else error.strerror
                code = error.exit_code if isinstance(error, MemctlError) else MemctlError.exit_code
                self.context.warn(f"the receipt could not be written to {file}: {said}", outcome=code)
        headline = self._headline(data)
        try:
            self.context.emit_report(Report(data, tuple(self._sections()), headline))
            self.context.environment.stdout.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.context.warn(f"the receipt could not be shown: {headline}")
            raise
        finally:
            self._warn()

    def _write(self, data: dict[str, Any], file: str) -> None:
        import orjson

        from memctl.archive import new_file

        with new_file(self.context.file(file)) as stream:
            stream.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")

    def _data(self) -> dict[str, Any]:
        erasures, is_dry = self.erasures, self.context.is_dry_run
        looked_for = [each for each in erasures if each.mentions is not None]
        return {
            "memctl_receipt": 1,
            "subject": list(self.subject),
            "started": from_datetime(self.started),
            "finished": from_datetime(self.context.environment.clock()),
            "items": sum(each.total.items for each in erasures),
            "vectors": sum(each.total.vectors for each in erasures),
            "bytes": sum(each.total.octets for each in erasures),
            "skipped": sum(each.left for each in erasures),
            "rejected": 0,
            "dry_run": is_dry,
            "seconds": round(self.seconds, 3),
            "orphans": sum(each.orphans for each in erasures),
            "bytes_erased": not is_dry and all(each.is_erased for each in erasures),
            "digest": None
            if is_dry
            else {"algorithm": "sha256", "salt": self.salt.hex(), "value": self.digest},
            "stores": list(map(self._store, erasures)),
            "mentions": sum(each.mention_count for each in looked_for) if looked_for else None,
            "mentioned": [
                mention_row(mention, each.store.address)
                for each in looked_for
                for mention in each.mentions or ()
            ]
            if looked_for
            else None,
        }

    def _store(self, erasure: Erasure) -> dict[str, Any]:
        is_dry = self.context.is_dry_run
        spaces = sorted(erasure.by_namespace.items(), key=lambda entry: encode(entry[0]))
        return {
            "store": erasure.store.address,
            "kind": erasure.store.kind,
            **erasure.total.columns(),
            "orphans": erasure.orphans,
            "history": erasure.former,
            "skipped": erasure.left,
            "namespaces": [
                {"namespace": shown(prefix).split("."), **tally.columns()} for prefix, tally in spaces
            ],
            "bytes_erased": not is_dry and erasure.is_erased,
            "why_not": ["it is a dry run"] if is_dry else list(erasure.reasons),
            "cannot_reach": list(erasure.unreachable),
            "siblings": _siblings(erasure),
        }

    def _headline(self, data: dict[str, Any]) -> str:
        from memctl.render.units import counted, octets

        what = f"{counted(data['items'], 'item')} and {counted(data['vectors'] + data['orphans'], 'vector')}"
        verb = "would be erased" if data["dry_run"] else "erased"
        return f"{what} ({octets(data['bytes'])}) {verb} in {self.seconds:.1f} s"

    def _sections(self) -> Iterator[Section]:
        from memctl.render import Column, Facts, Grid, Kind

        for erasure in self.erasures:
            yield Facts(erasure.store.address, tuple(self._facts(erasure)))
        mentions = [
            {**row, "where": ", ".join(row["where"])}
            for each in self.erasures
            for row in (
                mention_row(mention, each.store.address) for mention in (each.mentions or [])[:_SHOWN]
            )
        ]
        if mentions:
            count = sum(each.mention_count for each in self.erasures)
            title = f"Named elsewhere, and left: {count:,}" + (
                f", {len(mentions):,} of them shown" if count > len(mentions) else ""
            )
            columns = Column("namespace", Kind.NAMESPACE), Column("key", Kind.KEY), Column("where")
            yield Grid(title, columns, mentions)

    def _facts(self, erasure: Erasure) -> Iterator[tuple[str, str]]:
        from memctl.render.units import counted

        yield "items", f"{erasure.total.items:,} in {counted(len(erasure.by_namespace), 'namespace')}"
        yield "vectors", f"{erasure.total.vectors:,}, and {erasure.orphans:,} without an item"
        if erasure.former:
            yield "history", f"{erasure.former:,} entries, with the former values that they held"
        if self.context.is_dry_run:
            return
        yield "octets erased", "yes" if erasure.is_erased else "no"
        for reason in erasure.reasons:
            yield "", reason
        if proof := erasure.proof:
            state = "as they were" if proof.is_unchanged else f"{proof.changed_count:,} changed meanwhile"
            size = f"{counted(proof.items_after, 'item')} in {counted(proof.namespaces, 'namespace')}"
            yield "siblings", f"{size}: {state}"
        for place in erasure.unreachable:
            yield "out of reach", place

    def _warn(self) -> None:
        from memctl.render.units import counted

        context = self.context
        for erasure in self.erasures:
            where = erasure.store.address
            if erasure.left:
                left = counted(erasure.left, "item")
                context.warn(f"{where}: {left} left: somebody else keeps writing there", outcome=3)
            if context.is_dry_run:
                continue
            if not erasure.is_done:
                done = counted(erasure.total.items, "item")
                context.warn(f"{where}: {done} erased until then: {erasure.reasons[0]}; run the same again")
            elif erasure.reasons and erasure.can_overwrite:
                reasons = "; ".join(erasure.reasons)
                context.warn(f"{where}: octets may be left in the file: {reasons}", outcome=3)
                context.note(
                    f"{where}: run the same again when nothing is in the way any more; bytes_erased says whether "
                    "all is done then (the exit code is 5, as nothing is stored there any more)"
                )
            elif erasure.can_overwrite and not erasure.has_erased:
                context.note(
                    f"{where}: written anew: no octet is left of what was deleted earlier, whosever it was"
                )


def _siblings(erasure: Erasure) -> dict[str, Any] | None:
    proof = erasure.proof
    if proof is None:
        return None
    scopes = erasure.subject.surroundings
    return {
        "scopes": [[] if each.prefix is None else shown(each.prefix).split(".") for each in scopes],
        "namespaces": proof.namespaces,
        "items_before": proof.items_before,
        "items_after": proof.items_after,
        "vectors_before": proof.vectors_before,
        "vectors_after": proof.vectors_after,
        "digest_before": proof.digest_before,
        "digest_after": proof.digest_after,
        "unchanged": proof.is_unchanged,
        "changed": proof.changed_count,
        "changed_namespaces": [shown(prefix).split(".") for prefix in proof.changed],
    }
