import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.checks import ContainsCheck, JsonSchemaCheck, LengthCheck
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.refine.checks_from_goal import derive, judged_goal


def lengths(goal: str) -> dict[str, tuple[int | None, int | None]]:
    checks = [item.evaluator for item in derive(goal)]
    return {
        check.unit: (check.min, check.max) for check in checks if isinstance(check, LengthCheck)
    }


def terms(goal: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    checks = [item.evaluator for item in derive(goal) if isinstance(item.evaluator, ContainsCheck)]
    wanted = next((check.all for check in checks if check.all), ())
    return wanted, next((check.none for check in checks if check.none), ())


@pytest.mark.parametrize(
    ("goal", "unit", "bounds"),
    [
        ("Write at most 60 words.", "words", (None, 60)),
        ("no more than 60 words", "words", (None, 60)),
        ("up to 60 words", "words", (None, 60)),
        ("under 60 words", "words", (None, 59)),
        ("more than 60 words", "words", (61, None)),
        ("at least 1,000 words", "words", (1000, None)),
        ("60 words or less", "words", (None, 60)),
        ("60 words or more", "words", (60, None)),
        ("between 40 and 60 words", "words", (40, 60)),
        ("40-60 words", "words", (40, 60)),
        ("40 to 60 words", "words", (40, 60)),
        ("exactly 60 words", "words", (60, 60)),
        ("about 100 words", "words", (80, 120)),
        ("a 100-word text", "words", (80, 120)),
        ("in three sentences", "sentences", (3, 3)),
        ("Write 3 sentences", "sentences", (3, 3)),
        ("at most two sentences", "sentences", (None, 2)),
        ("a poem of 14 lines", "lines", (14, 14)),
        ("max. 280 characters", "chars", (None, 280)),
        ("<= 280 characters", "chars", (None, 280)),
        ("at least 40 words and at most 60 words", "words", (40, 60)),
        ("Do not exceed 60 words", "words", (None, 60)),
        ("Don’t exceed 60 words", "words", (None, 60)),
        ("without exceeding three sentences", "sentences", (None, 3)),
        ("no longer than 60 words", "words", (None, 60)),
        ("It must not be longer than 60 words.", "words", (None, 60)),
        ("Do not make it longer than 60 words.", "words", (None, 60)),
        ("Don't use more than 60 words.", "words", (None, 60)),
        ("Do not go over 60 words.", "words", (None, 60)),
        ("Don't go over three lines.", "lines", (None, 3)),
        ("Never write fewer than 60 words.", "words", (60, None)),
        ("not under 60 words", "words", (60, None)),
        ("Not short, but more than 60 words", "words", (61, None)),
        ("Keep each sentence short. Write at most 60 words.", "words", (None, 60)),
    ],
)
def test_stated_lengths_become_checks(
    goal: str, unit: str, bounds: tuple[int | None, int | None]
) -> None:
    assert lengths(goal) == {unit: bounds}


@pytest.mark.parametrize(
    "goal",
    [
        "Write a product text.",
        "Explain the word order of German.",
        "Summarise chapter 3.",
        "Ten lines of at most 9 words".replace("Ten lines of ", "lines of "),
        "5 rows, lines with at most 9 words",
        "at most 9 words per line",
        "at most 9 words in each line",
        "Take the 2.5 lines",
        "Summarise it in twenty-five words.",
        "in thirty to thirty-five words",
        "Write a hundred and five words.",
        "one thousand two words",
        "Write at most 10 000 characters.",
        "in 2 100-word columns",
        "Keep each sentence under 20 words.",
        "Every paragraph should have at most 50 words.",
        "höchstens 60 Wörter",
        "en moins de 60 mots",
        "",
    ],
)
def test_what_is_not_said_of_the_whole_is_no_check(goal: str) -> None:
    assert lengths(goal) == {}


def test_several_units_are_several_checks() -> None:
    goal = "Write 3 sentences, at most 40 words."
    assert lengths(goal) == {"sentences": (3, 3), "words": (None, 40)}


def test_demands_that_cannot_both_be_met_leave_the_first() -> None:
    assert lengths("at least 100 words, at most 50 words") == {"words": (100, None)}


@pytest.mark.parametrize(
    ("goal", "wanted", "banned"),
    [
        ('Mention "steel" and "dishwasher safe".', ("steel", "dishwasher safe"), ()),
        ("Use the word “Isolierung”.", ("Isolierung",), ()),
        ("Verwende „Stahl“ und «acier»", ("Stahl", "acier"), ()),
        ("Call `run()` somewhere", ("run()",), ()),
        ("It's the dog's bowl, isn't it", (), ()),
        ("Mention steel, lid and long warranty.", ("steel", "lid", "long warranty"), ()),
        ("mentioning steel and the dishwasher in 60 words", ("steel", "dishwasher"), ()),
        ("keywords: iron, rust, oxide", ("iron", "rust", "oxide"), ()),
        ("erwähne Stahl, Deckel und Garantie", (), ()),
        ("mention that it keeps drinks cold and is light", (), ()),
        ("include a short call to action", (), ()),
        ('Do not use "cheap".', (), ("cheap",)),
        ("Schreib ohne „billig“", (), ("billig",)),
        ("Write about steel without 'synergy'", (), ("synergy",)),
        ("Do not mention price or discount.", (), ("price", "discount")),
        ('Say "yes" and "YES"', ("yes",), ()),
        ('Write no more than 50 words and mention "oak".', ("oak",), ()),
        ('Do not exceed 60 words, and mention "oak".', ("oak",), ()),
        ('Do not go over 60 words and mention "oak".', ("oak",), ()),
        ('Do not exceed 60 words or 3 sentences, mention "oak".', ("oak",), ()),
        ('Do not exceed 60 words or use "oak".', (), ("oak",)),
        ("Do not exceed 60 words or mention oak, elm and ash.", (), ("oak", "elm", "ash")),
        ('Do not exceed 60 words, and do not use "oak".', (), ("oak",)),
        ('Don\'t forget to mention "oak".', ("oak",), ()),
        ('Never fail to mention "oak".', ("oak",), ()),
        ('Do not omit the word "oak".', ("oak",), ()),
        ("Not only mention 'elm' but also 'oak'.", ("elm", "oak"), ()),
        ("Do not forget to mention oak and elm.", ("oak", "elm"), ()),
        ('Don\'t forget not to mention "oak".', (), ("oak",)),
        ('Don’t use "oak".', (), ("oak",)),
        ('It mustn\'t say "oak".', (), ("oak",)),
        ('Do not use jargon, but mention "oak".', ("oak",), ()),
        ("Write a text without jargon, mention oak and elm", ("oak", "elm"), ()),
        ('Avoid jargon and mention "oak".', ("oak",), ()),
        ('Write without "elm", "ash" or mentioning "oak".', (), ("elm", "ash", "oak")),
        ("Nicht mehr als 50 Wörter, erwähne „Eiche“", ("Eiche",), ()),
        ("Vergiss nicht, „Eiche“ zu erwähnen", ("Eiche",), ()),
        ("N’oublie pas de mentionner «chêne»", ("chêne",), ()),
        ("Nenne es nicht „Baum“, sondern „Eiche“", ("Eiche",), ("Baum",)),
    ],
)  # fmt: skip
def test_words_to_mention_and_to_avoid(
    goal: str, wanted: tuple[str, ...], banned: tuple[str, ...]
) -> None:
    assert terms(goal) == (wanted, banned)


@pytest.mark.parametrize(
    ("goal", "schema"),
    [
        ("Return JSON", {"type": ["object", "array"]}),
        ("List them as a JSON array.", {"type": "array"}),
        ("Give a JSON object.", {"type": "object"}),
        ("Answer in JSON with the keys name, age", {"type": "object", "required": ["name", "age"]}),
        ("Antworte als JSON", None),
        ("Explain what JSON is.", None),
        ("Write prose, not as JSON.", None),
        ("Write no more than 3 sentences as JSON.", {"type": ["object", "array"]}),
        ("Do not exceed 60 words; answer as JSON.", {"type": ["object", "array"]}),
        ("Do not answer in JSON.", None),
        ("Three facts about bees, JSON output.", {"type": ["object", "array"]}),
        ("Produce valid JSON", {"type": ["object", "array"]}),
        ("Write a JSON object with the keys a, b", {"type": "object", "required": ["a", "b"]}),
        ("Answer in the JSON format.", {"type": ["object", "array"]}),
        ("Explain what a JSON object is.", None),
        ("Write a tutorial on the JSON format.", None),
        ("Convert the JSON array below to CSV.", None),
        ("Find the mistake in the JSON document below.", None),
        ("Write a JSON parser.", None),
        ("Write a Python function that parses a JSON array.", None),
        ("Write a script that saves the prices as JSON.", None),
    ],
)
def test_json_is_asked_for_only_where_it_is_the_form(
    goal: str, schema: dict[str, object] | None
) -> None:
    found = [item.evaluator for item in derive(goal)]
    schemas = [check.schema_ for check in found if isinstance(check, JsonSchemaCheck)]
    assert schemas == ([] if schema is None else [schema])


@given(st.text(max_size=200))
def test_whatever_is_said_gives_a_usable_rubric(goal: str) -> None:
    rubric = Rubric((*derive(goal), judged_goal()))
    assert derive(goal) == derive(goal)
    assert all(item.hint for item in rubric.checks)
