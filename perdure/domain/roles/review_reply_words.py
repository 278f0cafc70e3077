"""The clauses of a reviewer's text, and the forms in which reviewers approve, reject and doubt.

Approvals are a closed list of forms; whatever is not among them approves nothing.

Code, comments, struck-out words, open check boxes and quoted words state nothing. All of it is
linear in the length of the text.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.domain.foundation.plain_text import folded

_WORD = r"(?:approved|lgtm|looks good|accepted|passes all criteria)"
ANY_WORD = re.compile(
    r"\b(?:approv(?:ed?|ing)|lgtm|look(?:s|ing)? good|accepted?|pass(?:es)? all criteria)\b"
)
_REJECTION = (
    r"(?:rejected|reject|needs? changes?|needs_changes|needs? work|needs? rework|not approved"
    r"|not accepted|revisions? (?:needed|required)|changes (?:requested|required|needed)"
    r"|disapproved|unapproved|not lgtm|denied|declined)"
)
_WORK = (
    r"(?:change|changes|patch|diff|pr|pull request|merge request|work|implementation|solution"
    r"|submission|iteration|round|code|result|deliverable|document|documentation|report|draft"
    r"|version|feature|fix|answer|text|plan)"
)
_SUBJECT = rf"(?:this|it|that|everything|all|all of it|(?:the|this|your) (?:\w+ )?{_WORK}|this one)"
_LEAD = (
    r"(?:(?:overall|so|therefore|thus|hence|now|yes|ok|okay|alright|all right|perfect"
    r"|in short|all in all|in summary"
    r"|in conclusion|with that|as it stands|finally|and|thanks|thank you|well done"
    r"|(?:very |really )?(?:great|good|nice|excellent|solid|clean)(?: (?:work|job|stuff))?)"
    r"\s?[,:-]?\s+){0,2}"
)
LABEL = re.compile(
    r"^(?:(?:my|the|our|final|overall|review|reviewer|reviewer's)\s+){0,3}"
    r"(?:verdict|decision|status|result|review|outcome|conclusion|recommendation|assessment"
    r"|judge?ment|summary|overall|approval)\s*(?::|=|-|,|\bis\b)\s*"
)
_END = r"(?=\s*(?:$|[.!,;:(-]))"
_ADDITION = (
    r"(?:to (?:me|us)|overall|as(?: it)? (?:is|stands)|by (?:me|us|the reviewer)|now|here|fully"
    r"|for (?:merge|merging|release|production)|from (?:my|our) (?:side|end)|unconditionally"
    r"|on all counts|without (?:any )?(?:reservations?|hesitation|changes|conditions|comments)"
    r"|and (?:ready|done|good)\b[^.]{0,40})"
)
STATED = re.compile(rf"^{_LEAD}{_WORD}(?:\s+{_ADDITION}){{0,2}}{_END}|^{_LEAD}approve{_END}")
_ADVERB = r"(?:hereby|fully|gladly|happily|now|therefore|thus|also|do|can|both|already|finally)"
_OBJECT = rf"(?:this|it|that|everything|(?:the|this|your) (?:\w+ )?{_WORK})"
FIRST_PERSON = re.compile(
    r"(?:^|, |; |\b(?:so|therefore|thus|hence|and|now|with that),? )"
    r"(?:i|we)(?: (?:am|are) (?:happy|glad|pleased) to"
    rf"| (?:am|are|have) [^,;:]{{1,80}} and)?(?:\s+{_ADVERB}){{0,3}}"
    rf"\s+(?:approve|(?:am|are) approving)(?:\s+{_OBJECT})?"
    rf"(?:\s+{_WORK})?(?:\s+{_ADDITION}){{0,2}}{_END}"
)
PASSIVE = re.compile(
    rf"^{_LEAD}{_SUBJECT}(?: (?:is|are|has been|have been))(?: (?:now|hereby|fully|all))?"
    rf" (?:approved|accepted)(?:\s+{_ADDITION}){{0,2}}{_END}"
    rf"|^{_LEAD}{_SUBJECT} looks good(?:\s+{_ADDITION}){{0,2}}{_END}"
    rf"|^{_LEAD}{_SUBJECT} (?:now )?pass(?:es)? all criteria{_END}"
    rf"|^(?:all|everything|this)(?: of (?:it|this))? (?:approved|accepted){_END}"
)
# What may follow a form of approval behind a comma; behind a dash or colon the reason is free.
REASON = re.compile(
    r",?\s*(?:and |so |with )?(?:thanks?|thank you|well done|great|good|nice|ship|merge|merging"
    r"|nothing|because|as |since|all |everything|the tests|tests|clean|solid|small|lgtm|approved"
    r"|accepted|go\b|(?:the )?(?:requirements|criteria|quality|goal|checks)\b"
    r"|it (?:meets|passes|does|works|has)|keep|[ .!]*$)"
)
CONCLUDED = re.compile(r"^(?:i|we) (?:am|are|have)\b[^:]{0,200}: approved[.!]*$")

BENIGN = re.compile(
    r"\b(?:no|without(?: any)?|zero|not a single|not any)"
    r"(?: (?:further|more|other|additional|open|remaining|critical|important|blocking|major|minor"
    r"|serious|or|and)){0,6}"
    r" (?:changes?|issues?|problems?|concerns?|blockers?|findings?|objections?|comments?|revisions?"
    r"|defects?|bugs?|remarks?|fixes|rework|work|errors?|reservations?|hesitation|conditions)"
    r"(?: (?:is|are|were|was|needed|required|necessary|requested|found|left|open|remain|remains"
    r"|remaining|whatsoever)){0,3}"
    r"|\bnothing (?:else |more |is |was |that )?(?:left to \w+|to (?:fix|change|add)|missing"
    r"|needs? (?:changes?|work|fixing))"
)
_POLITE = re.compile(
    r"\b(?:thanks?|thank you|well done|(?:great|good|nice|excellent|solid) (?:work|job)|ship it"
    r"|merge it|good to (?:go|merge)|ready to (?:go|merge|ship)|as asked)\b"
)
_FULFILLED = re.compile(
    r"\b(?:all |every |each )?(?:of )?(?:the |your |its )?"
    r"(?:(?:acceptance|stated|listed|given|unit|quality) )?"
    r"(?:requirements?|criteria|criterion|demands?|goals?|tests|checks)"
    r"(?: (?:is|are|was|were|have been|has been|all|now|fully))*"
    r" (?:met|fulfilled|satisfied|achieved|reached|pass|passes|passed|green|covered)\b"
    r"|\b(?:the )?quality (?:is |was )?(?:good|fine|high|excellent|ok|passes)\b"
)
_TO_GO_ON = (
    r"(?:(?:please |kindly |you can |you may |feel free to )?"
    r"(?:go ahead|go on|proceed|merge|ship)(?: (?:it|this))?(?: (?:now|and merge(?: it)?"
    r"|and ship(?: it)?|with the (?:merge|release)))?)"
)
# What a reviewer lets others do once it is approved; anything after it would be a condition.
LEAVE = re.compile(rf"(?:^|\s*[,;:-]\s*(?:and |so )?|\s+and )(?:now )?{_TO_GO_ON}[ .!]*$")
# A whole reply that approves without a word of approval.
YES_AND_LEAVE = re.compile(rf"^(?:yes|ok|okay)\s*[,:-]?\s+{_TO_GO_ON}[ .!]*$")
_FILLERS = frozenset(
    (
        *("a", "and", "are", "found", "go", "have", "i", "is", "it", "looks", "of", "overall"),
        *("review", "so", "the", "there", "this", "we", "with", "yes", "verdict", "decision"),
        *("status", "result", "outcome", "conclusion", "summary"),
    )
)


def says_nothing_else(rest: str) -> bool:
    """Whether the rest of an approval is only polite, or says that nothing is open."""
    left = _POLITE.sub(" ", _FULFILLED.sub(" ", BENIGN.sub(" ", rest)))
    return all(word in _FILLERS for word in re.split(r"[\s,.!:;-]+", left) if word)


NEGATION = re.compile(
    r"\bnot?\b|n't\b|\bcannot\b|\bcant\b|\bnever\b|\bnone\b|\bnobody\b|\bneither\b|\bnor\b"
    r"|\bunable\b|\brefuse|\bfalse\b|\bwithout\b|\bhardly\b|\bun-|\bdis-|\bhalf\b|\bnein\b"
    r"|\bnicht\b|\bkein|\bnon\b|\bpas\b|\bnão\b|\bнет\b|\bне\b|[不未没]|=\s*0\b|¬"
)
CONDITION = re.compile(
    r"\b(?:once|if|when|whenever|unless|until|till|after|before|provided|providing|pending|assuming"
    r"|subject to|as soon as|as long as|on condition|will|would|could|might|may|should|shall|must"
    r"|to be|be|conditional(?:ly)?|contingent|modulo|minus|except|excluding|but|however|although"
    r"|though|yet|almost|nearly|mostly|partly|partially|tentatively|in principle|otherwise|only"
    r"|hope|want|wish|need|needs|please|or|with changes?|with comments?|with conditions?"
    r"|with (?:minor|some|a few|fixes|revisions|caveats|reservations)"
    r"|so far|for now|so long as|see|save|aside|besides|apart|extent|guess|maybe|perhaps"
    r"|presumably|probably|possibly|likely|kind of|sort of|in theory|on paper|at first|inclined"
    r"|in the sense|the following|wait(?:s|ing)?|await\w*|depend\w*|on hold|later|under review"
    r"|kidding|joking|todo)\b"
    r"|\b(?:i|we)'(?:ll|d)\b|\|"
)
ATTRIBUTION = re.compile(
    r"\b(?:claim\w*|says?|said|states?|stated|according|asked|told|pretend\w*|assert\w*|writes?"
    r"|wrote|written|instruct\w*|prompt|contains?|respond|reply|answer with|keyword|word|example"
    r"|eg|ie|template|previous\w*|earlier|last|comments?|reads?|message|author|coder|developer"
    r"|implementer|expects?|expected|reviewer,)\b"
)
TURN = re.compile(
    r"^(?:and )?(?:provided|providing|but|however|once|only|except|assuming|unless|pending"
    r"|subject to|as soon as|as long as|on condition|after|until|no, wait|actually)\b"
    r"|^if (?!you (?:have|want|like)|needed|wanted)"
)
REJECTS_AT_ONCE = re.compile(
    rf"^{_LEAD}{_REJECTION}(?:\s*(?:$|[.!,;:)-])|\s+(?:because|for|since|due|on|as|until|and|here))"
)
REJECTS_A_PART = re.compile(rf"^[^:]{{1,80}}:\s*{_REJECTION}\s*[.!,;)]?$")
REJECTS_IN_PROSE = re.compile(
    r"\b(?:needs? (?:changes?|work|rework|revisions?)|needs_changes|revisions? (?:needed|required)"
    r"|changes (?:requested|required)|disapproved?|unapproved|unacceptable)\b"
    rf"|\b(?:i|we)(?: (?:must|have to|will|hereby|do|would|am going to)){{0,2}} reject\b"
    rf"|^{_LEAD}(?:{_SUBJECT}|{_WORK}|docs|tests)(?: (?:is|are|has been)(?: hereby)? rejected\b"
    rf"| rejected{_END})"
    r"|(?:\bnot|n't|\bcannot|\bnever|\bunable to|\brefuse to)(?: [\w']+){0,5}?"
    r" (?:approved?|accepted|lgtm|looks? good|pass(?:es)? all criteria)\b(?! by (?!me|us))"
)
SETTLED = re.compile(
    r"\b(?:previous\w*|earlier|formerly|last (?:round|time|iteration)|(?<!be )(?<!not )(?:fixed"
    r"|addressed|resolved|settled|corrected|solved)|no longer|not need|does not need|n't need"
    r"|(?:round|iteration) \d+)\b"
)
OPEN_AGAIN = re.compile(
    r"\b(?:still|again|remains?|this one|now)\b|\bnot (?:\w+ )?(?:fixed|addressed|resolved)"
)
DEMAND = re.compile(
    r"\b(?:must|needs? to|has to|have to|should) (?:still |first )?(?:be )?"
    r"(?:add|added|fix|fixed|remove|removed|change|changed|correct|corrected|rework|address|cover"
    r"|covered|handle|handled|rename|renamed|rewrite|rewritten|update|updated)\b"
    r"|\bplease (?:add|fix|remove|change|correct|rework|address|rename|rewrite|update)\b"
    r"|\b(?:is|are|still) (?:missing|broken|failing|incomplete|incorrect|wrong|untested)\b"
    r"|\b(?:tests?|suite|build|ci|lint|it) (?:still )?(?:fails?|breaks|crash(?:es)?)\b"
    r"|\b(?:blocking|critical|important|severe|serious|major) (?:bugs?|issues?|defects?|problems?"
    r"|errors?|findings?|flaws?)\b"
    r"|^\[?(?:critical|blocker|important|major|high)(?:\]| ?:)"
)
OPTIONAL = re.compile(
    r"\b(?:nits?|nitpick|optional(?:ly)?|suggestions?|minor|follow-up|future|later|nice to have"
    r"|could|might)\b"
)
CHOICE = re.compile(
    rf"\b(?:{_WORD}|approve)\b\W{{0,4}}(?:or|/|\|){{1,2}}\W{{0,4}}{_REJECTION}\b"
    rf"|\b{_REJECTION}\W{{0,4}}(?:or|/|\|){{1,2}}\W{{0,4}}(?:{_WORD}|approve)\b"
)
BENIGN_NEED = re.compile(
    r"\b(?:no longer|not|n't|nothing|never|without) need|\b(?:would|will) reject\b"
)
UNSURE = re.compile(r"\b(?:whether|not sure|unsure|cannot tell|can't tell|(?:not|n't) know)\b")


CROSS = "¬"  # stands for every picture that says no
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_STRUCK = re.compile(r"~~[^~\n]*~~")
_MARKS = re.compile(r"^(?:\s*(?:#{1,6}(?=\s)|[-*+•](?=\s)|\d{1,3}[.)](?=\s)|\[[xX]\](?=\s)))+\s*")
_OPEN_BOX = re.compile(r"^\s*(?:[-*+•]\s+)?\[\s*\]")
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？…])(?=[\s*_\"')]|$|[^\x00-\x7f])|(?<=[。！？])")
# Their full stops end no sentence.
_ABBREVIATED = re.compile(r"\b([ei])\.\s?([ge])\.", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|`{2,}")
_LABELLED_QUOTE = re.compile(r"(?<=[:=])(\s*)[\"'`]([\w ]{1,40})[\"'`]")
_QUOTED = re.compile(r"\"[^\"\n]{0,200}\"|`[^`\n]{1,200}`|(?<!\w)'[^'\n]{1,80}'(?!\w)")
_CONTRACTED = re.compile(r"\b(i|we|it|this|that|everything|all)'(m|re|s|ve)\b")
_VERBS = {"m": "am", "re": "are", "s": "is", "ve": "have"}
_SYMBOLS = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "‚": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "‐": "-",
        "‑": "-",
        "–": "-",
        "—": "-",
        "❌": f" {CROSS} ",
        "✗": f" {CROSS} ",
        "✘": f" {CROSS} ",
        "🚫": f" {CROSS} ",
        "⛔": f" {CROSS} ",
        "👎": f" {CROSS} ",
    }
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence or a part of one, in small letters and with single spaces.

    Args:
        text: without marks, emphasis, pictures and quoted words.
        is_question: it ends with a question mark.
        is_own: the reviewer says it: neither a block quote nor indented code.
    """

    text: str
    is_question: bool
    is_own: bool


_HIDDEN = re.compile(r"<!--|~~|<(?:del|s|strike|details)\b", re.IGNORECASE)
# Pictures that people put beside an approval; any other one may take it back.
_FRIENDLY = frozenset("✅✔✓☑👍👌🎉🎊🚀💯🙌👏🟢💚🥳🙂😀😊🤝⭐🌟✨")


def clauses(text: str) -> Iterator[Clause]:
    """What the text says, sentence by sentence."""
    plain = _ABBREVIATED.sub(r"\1\2", folded(text).translate(_SYMBOLS))
    for line in _without_code(_without_comments(plain).splitlines()):
        if _OPEN_BOX.match(line):
            continue
        bare = line.lstrip()
        is_own = not bare.startswith(">") and not line.startswith(("    ", "\t"))
        for sentence in _SENTENCE_END.split(_row(_MARKS.sub("", bare.lstrip("> ")))):
            words = _words(sentence)
            if words:
                yield Clause(text=words, is_question=words.endswith("?"), is_own=is_own)


def has_unread(text: str) -> bool:
    """Whether a text has more than words that are read: code, comments, boxes, other pictures."""
    plain = folded(text)
    if _HIDDEN.search(plain):
        return True
    if any(_OPEN_BOX.match(line) or _FENCE.match(line) for line in plain.splitlines()):
        return True
    return any(unicodedata.category(sign) == "So" and sign not in _FRIENDLY for sign in plain)


def _without_comments(text: str) -> str:
    kept: list[str] = []
    rest = text
    # By hand: for many openings without an end, a pattern would search to the end from each.
    while (start := rest.find("<!--")) >= 0 and (end := rest.find("-->", start)) >= 0:
        kept.append(rest[:start])
        rest = rest[end + 3 :]
    return " ".join([*kept, rest])


def _without_code(lines: list[str]) -> Iterator[str]:
    """The lines outside fences; a fence that nobody closes is none."""
    closes = _fence_ends(lines)
    skip_to = -1
    for number, line in enumerate(lines):
        if number <= skip_to:
            continue
        if number in closes:
            skip_to = closes[number]
            continue
        yield line


def _fence_ends(lines: list[str]) -> dict[int, int]:
    """Where each fence that opens is closed."""
    ends: dict[int, int] = {}
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if found is None:
            continue
        if opened is None:
            opened = (number, found.group(1))
        elif found.group(1) == opened[1]:
            ends[opened[0]] = number
            opened = None
    return ends


def _row(line: str) -> str:
    """A row of a table with two cells as `label: value`."""
    if not line.startswith("|"):
        return line
    cells = [cell.strip() for cell in line.strip("| ").split("|")]
    return ": ".join(cells) if len(cells) == 2 else "; ".join(cells)


def _words(sentence: str) -> str:
    bare = _EMPHASIS.sub("", _STRUCK.sub(" ", sentence))
    # A sign is left in place of a quotation: without it, `I "do not" approve` would approve.
    bare = _QUOTED.sub(" ” ", _LABELLED_QUOTE.sub(r"\1\2", bare))
    kept = (one for one in bare.casefold() if unicodedata.category(one) not in _SILENT)
    return _CONTRACTED.sub(_in_full, " ".join("".join(kept).split()))


def _in_full(found: re.Match[str]) -> str:
    return f"{found[1]} {_VERBS[found[2]]}"


# Pictures, and characters that are not seen.
_SILENT = frozenset({"So", "Cf", "Co", "Cs", "Mn", "Me"})
