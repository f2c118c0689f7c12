"""Finding what is wrong with a store, and putting it right.

Each check is a class in a module of its family, with a stable id; `CHECKS` has them in the order in which
they report and repair. They are imported when they are used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memctl.doctor.check import Check

CHECKS = {
    "orphaned-vectors": "memctl.doctor.orphans:OrphanedVectors",
    "stale-vectors": "memctl.doctor.stale:StaleVectors",
    "created-at-drift": "memctl.doctor.drift:CreatedAtDrift",
    "expired-unswept": "memctl.doctor.expiry:ExpiredUnswept",
    "ttl-inconsistent": "memctl.doctor.expiry:TtlInconsistent",
    "schema": "memctl.doctor.schema:Schema",
    "vector-shape": "memctl.doctor.vectors:VectorShape",
    "index-coverage": "memctl.doctor.vectors:IndexCoverage",
    "namespaces": "memctl.doctor.names:Namespaces",
    "tenancy": "memctl.doctor.tenancy:Tenancy",
    "values": "memctl.doctor.contents:Values",
    "timestamps": "memctl.doctor.times:Timestamps",
    "langmem-shape": "memctl.doctor.shapes:LangmemShape",
    "deepagents-shape": "memctl.doctor.shapes:DeepagentsShape",
    "duplicates": "memctl.doctor.similar:Duplicates",
    "append-only": "memctl.doctor.growth:AppendOnly",
    "provenance": "memctl.doctor.sources:Provenance",
    "resurrected": "memctl.doctor.resurrection:Resurrected",
    "ttl-job": "memctl.doctor.jobs:TtlJob",
    "vector-expiry": "memctl.doctor.jobs:VectorExpiry",
    "integrity": "memctl.doctor.integrity:Integrity",
}
"""Check id to its class, as module:class, in the fixed order of the report."""


@cache
def check_class(name: str) -> type[Check]:
    """Return the class of one of CHECKS."""
    module, _, attribute = CHECKS[name].partition(":")
    found: type[Check] = getattr(import_module(module), attribute)
    return found
