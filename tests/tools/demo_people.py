"""The story that the demo store tells: three people of Acme Bicycles, and the assistant that remembers them.

Most of it is as it should be. The rest shows, once or twice each, how such stores go wrong; every fault
says in a comment which check of the doctor finds it.
"""

from __future__ import annotations

from functools import partial

from demo_history import History, ago
from demo_shapes import fact, file, manager_memory, tool_memory

USERS = ("ana", "bo", "chen")
ORGANISATIONS = ("acme",)

DAY = 24 * 60
"""Minutes, as TTLs are counted."""

# One memory a line or two reads better than one argument a line.
# fmt: off


def tell(history: History) -> None:
    """Let everything happen that is about these people."""
    for chapter in (handbook, ana, bo, chen):
        chapter(history)


def handbook(history: History) -> None:
    """What the whole company shares."""
    for age, key, owner, text in (
        ("310d", "warranty", "bo", "Steel frames carry a warranty of ten years, carbon forks of two."),
        ("310d", "returns", "chen", "A bicycle can go back within 30 days if it was ridden less than 50 km."),
        ("204d", "expenses", "chen", "Expenses under 50 euros need no approval; above that, ask Chen first."),
        ("131d", "holidays", "ana", "The workshop is closed for two weeks in July, and over Christmas."),
        ("96d", "voice", "ana", "We write plainly, thank people by name, and never use an exclamation mark."),
        ("33d", "complaints", "bo", "Whoever reads a complaint first answers it, on the same day."),
    ):
        history.put(age, "acme.handbook", key, {"text": text, "owner": owner})
    history.thread("3d", "team-monday")


def ana(history: History) -> None:
    """The designer, in Lisbon: her memory is in good order, almost."""
    know = partial(fact, history, "ana")
    for age, key, value in (
        ("298d", "language", {"text": "Answer in Portuguese when Ana writes Portuguese, else in English.",
                              "languages": ["pt", "en"]}),
        ("298d", "tone", {"text": "Short and warm. No bullet points unless she asks for them."}),
        ("151d", "mornings", {"text": "No meetings before ten: the mornings are for drawing."}),
        ("88d", "travel", {"text": "Trains rather than planes when it takes less than eight hours."}),
        ("12d", "reminders", {"text": "Remind her by e-mail, never by phone, and not in the evening.",
                              "channel": "email", "quiet_hours": {"from": "19:00", "to": "08:00"}}),
    ):
        history.put(age, "acme.ana.preferences", key, value)

    history.thread("26d", "ana-welcome")
    history.thread("5h", "ana-kestrel")
    know("297d", "home", "Ana lives in Lisbon, two streets from the river.", "ana-welcome")
    know("297d", "role", "Ana designs every frame that Acme builds, first of all by hand.", "ana-welcome")
    know("201d", "allergy", "Ana is allergic to hazelnuts; almonds are fine.", "ana-welcome")
    know("120d", "dog", "Ana's dog is called Pastel and comes to the studio on Fridays.", "ana-kestrel")
    know("17d", "project", "Ana is drawing the Kestrel, a light touring frame for short riders.",
         "ana-kestrel")
    know("6d", "guest", "Lotte from the Ghent office has the desk beside Ana for a month.", "team-monday",
         ttl=30 * DAY)
    # duplicates: two memories that contradict each other under one subject, and nearly the same vector.
    know("190d", "diet", "Ana is vegetarian: no meat and no fish.", "ana-welcome")
    know("21d", "diet-2", "Ana is no longer vegetarian: fish is fine, no meat.", "ana-kestrel")
    # stale-vectors, created-at-drift: written again without index, so the vector still says Sofia.
    know("240d", "manager", "Ana reports to Sofia, who runs the studio.", "ana-welcome")
    know("40d", "manager", "Ana reports to Bo, who runs the workshop.", "team-monday", index=False)
    # provenance: the conversation that this was learnt in is gone.
    know("143d", "summer", "Ana spends August with her grandmother in Viana do Castelo.", "ana-summer",
         confirmed=False)

    prefix = "acme.ana.memories"
    for age, text in (
        ("160d", "Ana thinks best on paper: send drawings that she can print, not links."),
        ("112d", "When a deadline moves, Ana wants to hear it the same day, with the reason."),
        ("58d", "Ana reads long documents on the train on Thursday evenings."),
        ("9d", "Ana was pleased with the shorter project summaries and asked to keep them."),
    ):
        manager_memory(history, age, prefix, text)
    profile = {"name": "Ana Ferreira", "timezone": "Europe/Lisbon", "languages": ["Portuguese", "English"]}
    history.put("160d", prefix, "default", {"kind": "Profile", "content": profile})

    file(history, "150d", "2d", "ana", "/notes.md",
         "# Notes\n\n- The moss green looks grey under workshop light; check it outdoors.\n"
         "- Ask Bo whether the new jig takes a 49 cm frame.\n- Thank Lotte for the lugs.\n")
    file(history, "31d", "3d", "ana", "/plans/kestrel-launch.md",
         "# Kestrel: plan for the launch\n\n1. Final geometry, signed off by Bo\n"
         "2. Three frames for test riders\n3. Photographs by the river, early morning light\n"
         "4. Orders open, 40 frames in the first batch\n")
    file(history, "45d", "44d", "ana", "/letters/tubing-supplier.md",
         "Dear Mr Okafor,\n\nthe last delivery of tubes was short by twelve, all of them seat stays. "
         "Could you send them with the next lorry?\n\nWith kind regards\nAna Ferreira\n")
    # The older form, a list of lines, is as good as the newer.
    file(history, "230d", "229d", "ana", "/packing-list.txt",
         ["pencils, soft", "calipers", "rain jacket", "a book for the train"])

    prefix = "acme.ana.sessions"
    for age, ttl, key, text in (
        ("5h", 2 * DAY, "kestrel-colours", "Comparing three greens for the Kestrel: moss, bottle and sage."),
        ("20h", DAY, "photographer", "Looking for a photographer who is free on a weekday morning."),
        ("2h", 4 * DAY, "train-to-porto", "A train to Porto on Friday afternoon, and back on Sunday."),
        ("6d", 7 * DAY, "handover", "Handing the open drawings over to Lotte, one by one."),
        # expired-unswept: both ran out, nothing has deleted them, and they are still served.
        ("50h", DAY, "birthday-dinner", "A table for six on Saturday, somewhere with a terrace."),
        ("10d", DAY, "lost-parcel", "Where is the parcel with the paint samples?"),
    ):
        history.put(age, prefix, key, {"text": text}, ttl=ttl)
    history.refresh("30h", prefix, "handover")
    # ttl-inconsistent: never expires, where all its siblings do.
    history.put("77d", prefix, "first-hello", {"text": "Ana said hello and asked what the assistant can do."})


def bo(history: History) -> None:
    """The head of the workshop, in Svendborg: a script of his own has left some marks."""
    know = partial(fact, history, "bo")
    for age, key, value in (
        ("305d", "language", {"text": "Danish for the workshop, English for everything in writing."}),
        ("305d", "detail", {"text": "Numbers first, then the story; torque in newton metres."}),
        ("64d", "calls", {"text": "Bo takes calls between seven and eight, before the workshop gets loud."}),
        ("36d", "timezone", {"text": "All times in Copenhagen time, on the 24-hour clock."}),
    ):
        history.put(age, "acme.bo.preferences", key, value)
    # created-at-drift: created after it was last changed, which cannot be.
    history.edit("acme.bo.preferences", "timezone", created_at=ago("4d"))

    history.thread("1d", "bo-workshop")
    know("300d", "role", "Bo runs the workshop and signs off every frame before it is painted.",
         "bo-workshop")
    know("222d", "machines", "The workshop has two lathes and an old milling machine called Gerda.",
         "bo-workshop")
    know("103d", "coffee", "Bo drinks his coffee black, and only before noon.", "team-monday")
    know("52d", "wrist", "Bo has hurt his left wrist and must not lift frames for a while.", "bo-workshop",
         ttl=90 * DAY)
    # stale-vectors: the list has shrunk from three to one, and the vectors of the three are still there.
    hobbies = "In his free time Bo {}."
    know("118d", "hobbies", hobbies.format("sings, plays chess and paddles a sea kayak"), "bo-workshop",
         tags=["choir singing", "chess", "sea kayaking"])
    know("8d", "hobbies", hobbies.format("sings in the harbour choir"), "bo-workshop", tags=["choir singing"])
    # stale-vectors, created-at-drift: deleted, and the key used again without index: found as a paint booth.
    know("170d", "project", "Bo is rebuilding the paint booth and its ventilation.", "bo-paint-booth")
    history.delete("acme.bo.facts", "project")
    know("7d", "project", "Bo is teaching two apprentices to braze lugs.", "bo-workshop", index=False)
    # orphaned-vectors: he asked to forget his address. The item went, its vector stayed.
    know("260d", "address", "Bo lives in the yellow house behind the boatyard in Svendborg.", "bo-workshop")
    history.delete("acme.bo.facts", "address")
    # index-coverage: so many vectors in one item crowd the others out of a search.
    know("19d", "suppliers", "Who delivers what to the workshop.", "bo-workshop", tags=[
        "steel tubes", "lugs", "forks", "spokes", "rims", "hubs", "saddles", "handlebars", "brake cables",
        "chains", "bearings", "powder coat"])

    prefix = "acme.bo.memories"
    for age, text in (
        ("140d", "Bo wants to be told what it costs before he is told how good it is."),
        ("75d", "Bo checks measurements twice; give him the drawing number with every figure."),
        ("13d", "Bo liked the weekly list of late deliveries and asked for it every Monday."),
    ):
        manager_memory(history, age, prefix, text)
    # langmem-shape: the manager expects a kind on every item here, and dies of this one.
    tool_memory(history, "11d", prefix, "Bo asked to be reminded of the boiler inspection in the spring.")

    file(history, "180d", "16d", "bo", "/workshop/checklist.md",
         "# Before a frame leaves\n\n- [ ] Alignment within 0.5 mm\n- [ ] Threads chased and greased\n"
         "- [ ] Serial number photographed\n- [ ] Signed by two people\n")
    file(history, "97d", "97d", "bo", "/workshop/paint-codes.md",
         "RAL 6003 is the moss green, RAL 6005 the bottle green, RAL 9001 the cream for the lettering.\n")
    # deepagents-shape: neither text nor lines, so the agent cannot read the file.
    file(history, "15d", "15d", "bo", "/todo.md", {"open": ["order argon", "sharpen reamers"], "done": []})

    # ttl-inconsistent: spellings that the library's sweep compares wrongly, and halves of an expiry.
    prefix = "acme.bo.sessions"
    for age, key, text, expires, ttl in (
        ("26h", "night-shift", "Is anyone in on Saturday night?", {"iso": ago("3h")}, DAY),
        ("2d", "argon-order", "Two bottles of argon, delivered on Tuesday.", {"epoch": -ago("5d")}, 7 * DAY),
        ("1d", "ferry", "The ferry to Langeland and the last one back.", {"zone": -ago("2h")}, DAY),
        ("3d", "calibration", "The torque wrench goes out for calibration.", None, 14 * DAY),
        ("4d", "visitors", "Eight visitors from the school on Thursday.", -ago("6d"), None),
        ("5d", "tea-timer", "A timer for half a minute.", {"put": -ago("9d") + 0.25}, 0),
    ):
        history.put(age, prefix, key, {"text": text})
        history.edit(prefix, key, expires_at=expires, ttl_minutes=ttl)


def chen(history: History) -> None:
    """The book-keeper, in Rotterdam: much is written down, and little of it is distilled."""
    know = partial(fact, history, "chen")
    for age, key, text in (
        ("290d", "currency", "Amounts in euros, with rate and date when it was paid in another currency."),
        ("290d", "precision", "Never round a figure that goes into the books."),
        ("174d", "format", "Tables rather than prose; the newest month on top."),
        ("25d", "deadlines", "A reminder a week before a tax deadline, and another one the day before."),
    ):
        # index-coverage: not indexed.
        history.put(age, "acme.chen.preferences", key, {"text": text}, index=False)

    history.thread("2d", "chen-books")
    know("288d", "role", "Chen keeps the books and pays the suppliers every other Friday.", "chen-books")
    know("211d", "home", "Chen lives in Rotterdam and works from Singapore every February.", "chen-books")
    know("85d", "bank", "Invoices are paid from the account at the co-operative bank.", "chen-books")
    know("41d", "tea", "Chen drinks oolong and brings back a tin for everyone.", "team-monday")
    know("14d", "auditor", "The auditor comes in the second week of the quarter.", "chen-books",
         confirmed=False, ttl=120 * DAY)

    for age, text in (
        ("133d", "Chen wants the reason for a late payment, not an apology for it."),
        ("79d", "Chen compares every quarter with the same quarter of the year before."),
        ("22d", "Chen plays badminton on Wednesdays and is offline from six."),
    ):
        tool_memory(history, age, "acme.chen.memories", text)

    # append-only: long snippets under random keys, never distilled, never overwritten, never expiring.
    for age, text in (
        ("61d", "User said: can you look at the March figures again, the total for tubes does not "
         "match what I have from the bank, I think the second delivery was booked twice, once "
         "on the day of the order and once on the day it arrived, please list both with their "
         "dates and tell me which one to take out. Assistant answered with a table of four "
         "rows and asked which of the two should be removed."),
        ("54d", "User said: take out the one from the day of the order, we always book on arrival. "
         "Assistant removed it and confirmed the new total. User said: and do the same for "
         "April please. Assistant found no double booking in April and said so. User said: "
         "good, then we are done with tubes."),
        ("39d", "User said: how do I book the powder coat that Bo paid for with his own card? "
         "Assistant explained that it is an expense of an employee, to be paid back with the "
         "next salary, and asked for the receipt. User uploaded the receipt. Assistant read an "
         "amount of 184.20 euros including tax."),
        ("27d", "User said: the customer in Bergen has paid in kroner again. Assistant took the rate "
         "of the day on which the money arrived, showed the difference to the invoice, 3.18 "
         "euros, and proposed to book it as a gain on exchange. User said: yes, like the last "
         "time, and please remember that."),
        ("13d", "User said: which invoices are more than thirty days late? Assistant listed five, the "
         "oldest from a shop in Leeds. User said: write to all but Leeds, I will call them "
         "myself. Assistant drafted four letters, each with the date of delivery and the "
         "amount, and kept Leeds out."),
    ):
        tool_memory(history, age, "acme.chen.snippets", text)
