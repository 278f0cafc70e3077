"""The journal's rules once more, in memory and in the plainest words, to compare with."""

from dataclasses import dataclass, field


@dataclass
class ModelRow:
    key: str
    attempt: int
    state: str = "started"
    tokens: int = 0
    unconfirmed: bool = False
    fixed: bool = False


@dataclass
class JournalModel:
    """Keys are `execution/number`; every attempt is estimated at `estimate` tokens."""

    estimate: int
    reservation: int
    rows: list[ModelRow] = field(default_factory=list)
    replies: dict[str, tuple[ModelRow, str]] = field(default_factory=dict)
    sealed: set[str] = field(default_factory=set)

    def of(self, key: str) -> list[ModelRow]:
        return [row for row in self.rows if row.key == key]

    def total(self, key: str) -> tuple[int, int]:
        """Confirmed and unconfirmed tokens of a key."""
        rows = self.of(key)
        unconfirmed = sum(row.tokens for row in rows if row.unconfirmed)
        return sum(row.tokens for row in rows) - unconfirmed, unconfirmed

    def begin(self, key: str, attempt: int) -> str:
        if key.partition("/")[0] in self.sealed:
            return "sealed"
        self._lose([row for row in self.of(key) if row.attempt < attempt])
        if key in self.replies:
            return "replayed"
        if sum(self.total(key)) + self.estimate > self.reservation:
            self._fix(self.of(key))
            return "does_not_fit"
        if self._latest(key, attempt, only_open=True) is None:
            self.rows.append(ModelRow(key, attempt))
        return "proceed"

    def answer(self, key: str, attempt: int, tokens: int, reply: str) -> bool:
        row = self._latest(key, attempt)
        assert row is not None
        if key in self.replies:
            winner, text = self.replies[key]
            if winner is row:
                return text == reply
            if row.state == "started":
                row.tokens, row.unconfirmed = tokens, True
            if row.state in ("started", "lost"):
                row.state = "duplicate"
            return False
        if row.state == "started" or (row.state == "lost" and not row.fixed):
            row.tokens, row.unconfirmed = tokens, False
        row.state = "answered"
        self.replies[key] = (row, reply)
        self._lose([other for other in self.of(key) if other.attempt < attempt])
        return True

    def fail(self, key: str, attempt: int, tokens: int, *, lost: bool) -> None:
        row = self._latest(key, attempt)
        assert row is not None
        correctable = row.state == "lost" and not row.fixed and key not in self.replies
        if row.state != "started" and not correctable:
            return
        if lost:
            self._lose([row])
        else:
            row.state, row.tokens, row.unconfirmed = "failed", tokens, False

    def reconcile(self, key: str) -> None:
        self._lose(self.of(key))
        self._fix(self.of(key))

    def seal(self, execution: str) -> None:
        self.sealed.add(execution)
        for key in {row.key for row in self.rows if row.key.startswith(f"{execution}/")}:
            self.reconcile(key)

    def _latest(self, key: str, attempt: int, *, only_open: bool = False) -> ModelRow | None:
        rows = [row for row in self.of(key) if row.attempt == attempt]
        if not rows or (only_open and rows[-1].state != "started"):
            return None
        return rows[-1]

    def _lose(self, rows: list[ModelRow]) -> None:
        for row in rows:
            if row.state == "started":
                row.state, row.tokens, row.unconfirmed = "lost", self.estimate, True

    def _fix(self, rows: list[ModelRow]) -> None:
        for row in rows:
            row.fixed = row.fixed or row.state == "lost"
