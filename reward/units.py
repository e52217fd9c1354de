"""Units of measure: one name per unit, so that a unit may be missing or spelled differently but not be another."""

import re

from reward.latex import DOLLAR

_SPELLINGS = {
    "degree": "degrees deg °", "radian": "radians rad", "percent": "percents pct % percentage",
    "dollar": f"dollars usd bucks {DOLLAR}", "euro": "euros eur €", "pound_sterling": "gbp £", "yen": "yen jpy ¥ yuan",
    "cent": "cents ¢", "rupee": "rupees rs", "meter": "meters metre metres m",
    "kilometer": "kilometers kilometre kilometres km kms",
    "centimeter": "centimeters centimetre centimetres cm cms", "millimeter": "millimeters millimetre millimetres mm",
    "inch": "inches in", "foot": "feet ft", "yard": "yards yd yds", "mile": "miles mi", "gram": "grams g gm",
    "kilogram": "kilograms kg kgs kilo kilos", "milligram": "milligrams mg", "pound": "pounds lb lbs",
    "ounce": "ounces oz",
    "ton": "tons tonne tonnes", "liter": "liters litre litres l L", "milliliter": "milliliters millilitre ml mL",
    "gallon": "gallons gal", "second": "seconds sec secs s", "minute": "minutes min mins", "hour": "hours hr hrs h",
    "day": "days", "week": "weeks", "month": "months", "year": "years yr yrs", "mph": "mph", "kph": "kph kmh",
    "newton": "newtons N", "joule": "joules J", "watt": "watts W", "volt": "volts V", "unit": "units",
    "acre": "acres", "hectare": "hectares ha", "knot": "knots", "hertz": "hz Hz", "byte": "bytes", "bit": "bits",
    "am": "am a.m. a.m AM", "pm": "pm p.m. p.m PM", "kelvin": "kelvins", "celsius": "C", "fahrenheit": "F",
}  # fmt: skip
UNITS = {spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others.split())}
# Words that multiply the number in front of them.
MULTIPLIERS = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
# Numbers that people write as words.
NUMBER_WORDS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
}
_POWERS = {"square": "^2", "squared": "^2", "sq": "^2", "sq.": "^2", "cubic": "^3", "cubed": "^3", "cu": "^3"}


def lookup(word: str) -> str | None:
    """Canonical name of one unit word; None when it is not a known unit."""
    return UNITS.get(word) or UNITS.get(word.lower().rstrip("."))


def canonical(text: str) -> str:
    """Canonical spelling of a unit phrase: ``sq. cm``, ``cm^{2}`` and ``square centimeters`` are the same."""
    text = text.replace("\\cdot", " ").replace("\\circ", " degree ").replace("^ degree", " degree ")
    text = re.sub(r"\^ ?\{? ?([0-9]) ?\}?", r" ^\1 ", text.replace("/", " per "))
    words: list[str] = []
    pending = ""
    for word in text.replace("{", " ").replace("}", " ").split():
        if word.lower() in _POWERS:
            if word.lower() in ("squared", "cubed"):
                words.append(_POWERS[word.lower()])
            else:
                pending = _POWERS[word.lower()]
            continue
        if word.startswith("^"):
            words.append(word)
            continue
        words.append(lookup(word) or _singular(word.lower().strip(".,")))
        if pending:
            words.append(pending)
            pending = ""
    return {"mile per hour": "mph", "kilometer per hour": "kph"}.get(" ".join(words), " ".join(words))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def is_unit(text: str) -> bool:
    """Whether every word of a phrase is a known unit, a power or "per"."""
    words = canonical(text).split()
    return bool(words) and all(word in _SPELLINGS or word[0] == "^" or word in ("per", "mph", "kph") for word in words)
