"""How the two databases find entries by terms: FTS5 in SQLite, a tsvector in PostgreSQL.

Both index the terms that the domain cut, as they are, so both find the same entries. Terms hold
letters and digits only, so a quoted term is a whole query in either language.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, TextClause, bindparam, cast, column, literal_column, text
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import memory

_SQLITE_HOLDERS = "SELECT term, doc FROM memory_vocabulary WHERE term IN :terms"
_POSTGRESQL_HOLDERS = """
    SELECT asked.term, count(*) FROM unnest(CAST(:terms AS TEXT[])) AS asked (term)
    JOIN memory ON memory.lexemes @@ CAST('''' || asked.term || '''' AS TSQUERY)
    GROUP BY asked.term
"""
_SQLITE_HOLDING = "SELECT rowid FROM memory_terms WHERE memory_terms MATCH :asked"


def holders(database: Database, terms: Sequence[str]) -> TextClause:
    """A query for the terms that are known, each with the number of entries that hold it."""
    if database.dialect_name == "sqlite":
        expanded = bindparam("terms", list(terms), expanding=True)
        return text(_SQLITE_HOLDERS).bindparams(expanded)
    return text(_POSTGRESQL_HOLDERS).bindparams(terms=list(terms))


def holding(database: Database, terms: Sequence[str]) -> ColumnElement[bool]:
    """The condition that an entry holds one of the terms at least."""
    terms = [form for term in terms for form in database.cells.digests(term)]
    if database.dialect_name == "sqlite":
        asked = " OR ".join(f'"{term}"' for term in terms)
        rows = text(_SQLITE_HOLDING).bindparams(asked=asked).columns(column("rowid"))
        return memory.c.number.in_(rows)
    asked = " | ".join(f"'{term}'" for term in terms)
    held = literal_column("memory.lexemes", TSVECTOR)
    return held.bool_op("@@")(cast(asked, TSQUERY))
