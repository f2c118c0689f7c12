"""What the manual says beyond what the commands say of themselves: the prose of memctl(1).

Text in `backquotes` is set as it is typed. The command line's contract is the source of every sentence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Terms:
    """Things and what they mean."""

    entries: dict[str, str]


@dataclass(frozen=True)
class Code:
    """Lines that stay as they are."""

    text: str


@dataclass(frozen=True)
class Section:
    """A titled part of the page; a `str` among its parts is a paragraph."""

    title: str
    parts: tuple[str | Terms | Code, ...]


DESCRIPTION = (
    "memctl opens the SQLite file or the database that holds a LangGraph store, and lets its owner see, search, "
    "move and correct what agents remember. It reads the tables that LangGraph's own libraries write, of every "
    "age, and works beside an agent that is running.",
    "Looking changes nothing: reading commands use read-only transactions, refresh no TTL, and create neither "
    "store nor table. Rows that cannot be decoded are shown as far as they can be, marked, and counted; they "
    "never stop a listing.",
    "Global options are taken before the command and after it. `--` ends the options, so that keys may begin "
    "with a dash.",
)

STORES = Section(
    "STORES",
    (
        "A store is named by `-s`, else by `MEMCTL_STORE`, else by `default` in a configuration file. STORE is "
        "one of:",
        Terms(
            {
                "`path`, `sqlite:///path`": "A SQLite file. It is never created.",
                "`postgresql://`..., `postgres://`..., `postgresql+psycopg://`...": "A Postgres database. A "
                "password is better kept in `PGPASSWORD`, `~/.pgpass` or a service file than in the address.",
                "`key=value` ...": "Any libpq connection string, such as `service=prod`.",
                "`cockroachdb://`...": "A CockroachDB database.",
                "`http://`..., `https://`...": "A LangGraph server.",
                "`python:module:attribute`": "A store that Python code makes. This runs code, so it is taken from "
                "the command line, the environment and your own configuration, and never from `./memctl.toml`.",
                "name": "A store that a configuration file names. A name beats a file; `./name` is the file.",
            }
        ),
        "Where the tables are not `store` in the schema that `search_path` finds, `--schema` and `--table` say so. "
        "Commands that take two stores take `?schema=...&table=...` at the end of each instead. When a database "
        "holds several stores and none is named, they are listed.",
        "No message shows a password.",
    ),
)

NAMESPACES = Section(
    "NAMESPACES",
    (
        "A namespace is written as LangGraph stores it, its labels joined with dots: `users.ana.prefs` is "
        '`("users", "ana", "prefs")`. It is split at every dot, so that labels may be empty: `a..b` is '
        '`("a", "", "b")`, and the empty text is the namespace of one empty label. Whole labels are compared, and '
        "case counts.",
        Terms(
            {
                "`*`": "stands for any one label: `users.*.prefs`.",
                r"`\*`": "is the label `*` itself.",
                "`{name}`": "is a variable in `--map` and `mv`; elsewhere it is a label.",
                "`{{name}}`": "is the label `{name}` itself.",
            }
        ),
        "What memctl prints can be pasted back. Commands that take a KEY mean exactly the namespace given, `rm` and "
        "`expire` the items directly in it unless `--recursive` is given, all others its descendants too.",
        "`--map OLD=NEW` renames on the way. It is split at the first `=`; the first rule that fits is taken; what "
        "follows the part that fits is kept. Every variable stands on both sides: "
        "`--map 'prefs.{user}={user}.preferences'`.",
    ),
)

SELECTING = Section(
    "SELECTING",
    (
        "`search` and the commands that move, delete or re-expire items choose them alike. All conditions have to "
        "hold.",
        Terms(
            {
                "TEXT": "is found in any string of a value, in any case, however the JSON escapes it. With `--regex` "
                "it is a regular expression.",
                "`--filter` 'PATH OP VALUE'": "compares one field, and may be repeated. PATH is `a.b` for nested "
                'keys, `"a.b"` for one key with a dot, `tags[0]` for an element. OP is `=`, `!=`, `>`, `>=`, `<`, '
                "`<=`, `~` (contains, in any case) or `!~`. A VALUE that is JSON has its type, anything else is "
                'text: `n=9` compares with a number, `n="9"` with text.',
                "`--filter` '{...}'": "is LangGraph's own filter: `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`. Its "
                "keys are top-level keys, taken literally.",
                "`--since`, `--until`": "compare `updated_at`, or `created_at` with `--by created_at`. A time is a "
                "date, an instant, or an age such as `45d` or `12h`; without a zone it is UTC.",
                "`--expired`, `--live`": "keep what has expired, or what has not. Without either, both are meant.",
            }
        ),
        "Numbers compare with numbers, as exact decimals, and text with text, by code point. A missing field only "
        "fits `!=`. This is the same on every kind of store.",
        "The newest items come first; `--order`, `--limit` and `--offset` change that. There is no limit unless one "
        "is given, except with `--like` and `--semantic`, which rank by the best cosine over an item's vectors and "
        "show ten.",
    ),
)

OUTPUT = Section(
    "OUTPUT",
    (
        "Data goes to standard output, everything else to standard error. `-o` chooses the format:",
        Terms(
            {
                "`table`": "for people: fitted to a terminal, or full and plain in a pipe.",
                "`json`": "one array, or one object where a command has one answer. An error is one object on "
                'standard error: `{"error": {"code", "message", "hint"}}`.',
                "`jsonl`": "one object a line.",
                "`csv`, `tsv`, `markdown`": "tables for other programs and for documents.",
                "`name`": "namespace, TAB, key. `get`, `rm` and `expire` read it back with `--from`.",
            }
        ),
        "Times are ISO 8601 in UTC with microseconds. Stored text is not trusted: control characters are shown "
        "escaped, except in JSON, which is exact. Keys of JSON objects are only ever added.",
    ),
)

EXIT_STATUS = Section(
    "EXIT STATUS",
    (
        Terms(
            {
                "0": "Done; also a search without a hit, and wildcards or filters that match nothing.",
                "1": "Failed: nothing or not all was done.",
                "2": "Usage, a refusal for want of `--yes` or `--all`, or several stores and none named.",
                "3": "Done in part: rows were rejected, undecodable or left out, and reported.",
                "4": "`doctor` found something, `diff` differs, or `verify` found a bad archive.",
                "5": "A literal namespace or key that holds nothing; an `rm` that deleted nothing.",
                "10": "No store there: missing, empty, no database, no tables, or another product's tables.",
                "11": "Busy, locked, or in need of recovery.",
                "12": "Refused: authentication, permission, or a folder that cannot be written.",
                "13": "Unreachable: refused connection, unknown host, or timeout.",
                "130, 141": "Interrupted; the reader of a pipe went away.",
            }
        ),
        "When several apply, the first of 130, 141, 2, 12, 13, 11, 10, 1, 5, 4, 3 is returned. Treat a code that is "
        "not listed as failure. A dry run exits as the real run would.",
    ),
)

EXIT_STATUS_IN_SHORT = (
    "As listed in `memctl`(1): 0 is done, 2 usage, 3 done in part; anything else is a failure that says why."
)

ENVIRONMENT = Section(
    "ENVIRONMENT",
    (
        Terms(
            {
                "`MEMCTL_STORE`, `MEMCTL_SCHEMA`, `MEMCTL_TABLE`, `MEMCTL_OUTPUT`, `MEMCTL_TIMEOUT`, "
                "`MEMCTL_NO_COLOR`": "stand for the options of the same names. There is none for `--yes` or `--all`.",
                "`NO_COLOR`": "No colour, when it is not empty. `TERM=dumb` says the same.",
                "`PGPASSWORD`, `PGSERVICEFILE` and others": "are read by libpq.",
                "`LANGGRAPH_API_KEY`, `LANGSMITH_API_KEY`, `LANGCHAIN_API_KEY`": "The first of these that is set is "
                "the key for a LangGraph server.",
                "`XDG_CONFIG_HOME`": "Where your own configuration is, instead of `~/.config`.",
            }
        ),
    ),
)

FILES = Section(
    "FILES",
    (
        "Stores have names in `./memctl.toml`, and in `$XDG_CONFIG_HOME/memctl/config.toml` "
        "(`~/.config/memctl/config.toml`). The file in the working directory comes first.",
        Code(
            """
default = "dev"

[stores.dev]
url = "./memory.db"

[stores.prod]
url = "postgresql://agent@db.internal/agents"
schema = "public"
table = "store"
"""
        ),
        "A relative path is taken from the folder of the file that names it.",
    ),
)

EXAMPLES = Section(
    "EXAMPLES",
    (
        "Make a sample store and look around:",
        Code("memctl demo\nmemctl -s memctl-demo.db ls --tree\nmemctl -s memctl-demo.db search kestrel"),
        "Show one memory of a production agent as JSON:",
        Code("memctl -s postgresql://agent@db.internal/agents get users.ana.prefs tone -o json"),
        "Hand the names of what a search finds to another command:",
        Code("memctl search --in users --expired -o name | memctl get --from - -o jsonl"),
    ),
)

SECTIONS = (STORES, NAMESPACES, SELECTING, OUTPUT, EXIT_STATUS, ENVIRONMENT, FILES, EXAMPLES)
"""In the order of the page, after DESCRIPTION, COMMANDS and OPTIONS."""
