"""SQLite stores. Nothing is bound here: a name would be overwritten by a module of the same name."""
