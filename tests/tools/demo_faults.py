"""What else has got into the demo store: memories that are misfiled, and rows that no library would write."""

from __future__ import annotations

import random
import struct

from demo_history import History, ago
from demo_shapes import manager_memory, tool_memory

# One memory a line or two reads better than one argument a line.
# fmt: off


def tell(history: History) -> None:
    """Let it all go wrong."""
    for chapter in (customers, misfiled, imported):
        chapter(history)


def customers(history: History) -> None:
    """Customers who write to the shop's own assistant: each of them a namespace at the root."""
    # namespaces: before 3.1.1 a search for `al` read `alice` as well.
    history.put("72d", "alice.preferences", "bicycle", {"text": "Alice rides a 52 cm tourer, in cream."})
    history.put("30d", "alice.preferences", "contact", {"text": "Write to Alice rather than phone her."})
    history.put("47d", "al.preferences", "bicycle", {"text": "Al rides a cargo bicycle with two children."})


def misfiled(history: History) -> None:
    """Memories in namespaces where nobody looks for them, or everybody."""
    # tenancy: the category first, so one search in `preferences` spans every user.
    for age, user, text in (
        ("270d", "ana", "Ana likes the dark theme, with large type."),
        ("266d", "bo", "Bo wants the light theme, because of the workshop lamps."),
        ("263d", "chen", "Chen wants two screens: the ledger left, the mail right."),
    ):
        history.put(age, f"preferences.{user}", "display", {"text": text})
    # tenancy: the fixed namespace of LangMem's first example, which all users share.
    for age, text in (
        ("284d", "The user prefers the dark theme in all applications."),
        ("283d", "The user's daughter starts school after the summer."),
        ("283d", "The user wants invoices as PDF, one file each."),
    ):
        tool_memory(history, age, "memories", text)
    # namespaces: a user id that was empty, None, never filled in, or an address whose dots became labels.
    manager_memory(history, "92d", "acme..memories", "The user rides to work in every weather.")
    manager_memory(history, "91d", "acme.None.memories", "The user wants to be called by the first name.")
    manager_memory(history, "89d", "acme.{user_id}.memories", "The user is looking for a smaller frame.")
    history.put("68d", "acme.dana@example.com.preferences", "tone", {"text": "Dana likes it formal."})
    # namespaces: differs from `chen` only in case.
    history.put("18d", "acme.Chen.preferences", "currency", {"text": "Amounts in Singapore dollars, please."})
    # namespaces: the root that LangGraph keeps for itself.
    history.put("101d", "langgraph.scratch", "probe", {"text": "Does the store answer? It does."})


def imported(history: History) -> None:
    """What a script brought over from the old help desk, in SQL, without asking the library."""
    prefix = "helpdesk.import"
    history.put("248d", prefix, "faq-sizes", {"text": "Which frame fits me? Measure the inside of your leg."})
    # values: cut off, not an object, Latin-1, half an emoji, NUL, the same name twice.
    history.insert("248d", prefix, "faq-waiting", b'{"text": "How long does a frame take? Six to ni')
    history.insert("248d", prefix, "colours", b'["moss green", "bottle green", "cream"]')
    history.insert("248d", prefix, "meeting", '{"text": "We meet at the café."}'.encode("latin-1"))
    history.insert("248d", prefix, "thanks", b'{"text": "What a beautiful bicycle, thank you \\ud83d"}')
    history.insert("248d", prefix, "form-letter", b'{"text": "Dear customer,\\u0000 we thank you."}')
    history.insert("248d", prefix, "hours", b'{"text": "Open until five.", "text": "Open until six."}')
    # values: the key itself is Latin-1.
    history.insert("248d", prefix, "café".encode("latin-1"), {"text": "The café pours oat milk on request."})
    # timestamps: none, a word, seconds since 1970, a T and a Z; created-at-drift: tomorrow.
    for key, text, columns in (
        ("ticket-1043", "A squeaking saddle; solved with a drop of oil.", {"created_at": None}),
        ("ticket-1044", "The bell was missing; sent with the post.", {"created_at": {"raw": "yesterday"}}),
        ("ticket-1045", "A flat tyre on the first day; repaired at once.",
         {"created_at": {"epoch": ago("246d")}, "updated_at": {"epoch": ago("246d")}}),
        ("ticket-1046", "The order went to the old address; sent again.",
         {"created_at": {"iso": ago("245d")}, "updated_at": {"iso": ago("245d")}}),
        ("ticket-1047", "When does the Kestrel come out?", {"created_at": -ago("1d")}),
    ):
        history.insert("247d", prefix, key, {"text": text})
        history.edit(prefix, key, **columns)
    # vector-shape: another model's 384 dimensions, nothing but zeros, the last two bytes lost.
    noise = random.Random(384)
    for key, text, embedding in (
        ("article-chains", "Cleaning a chain: rag, brush, patience.",
         struct.pack("<384f", *(noise.gauss(0, 1 / 384**0.5) for _ in range(384)))),
        ("article-lights", "Lights: the law asks for one in front and one behind.", bytes(4 * 256)),
        ("article-locks", "Locks: through the frame and through the wheel.",
         struct.pack("<256f", *(noise.gauss(0, 1 / 16) for _ in range(256)))[:-2]),
    ):
        history.insert("244d", prefix, key, {"text": text})
        history.insert_vector(prefix, key, "text", embedding)
    # index-coverage: a whole document in one vector.
    parts = (
        "bottom bracket", "brake lever", "chain guard", "crank", "dynamo", "fender stay", "head set", "hub",
        "luggage rack", "mudguard", "pedal", "rim tape", "saddle clamp", "seat post", "spoke key",
    )
    catalogue = {
        part: {"stock": 3 + 7 * place % 40, "shelf": f"{'ABCD'[place % 4]}{place // 4 + 1}", "fits": "all"}
        for place, part in enumerate(parts)
    }
    history.put("243d", prefix, "spare-parts", catalogue, index=["$"])
