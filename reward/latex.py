"""Bring one answer (at most ``MAX_ANSWER`` characters) into one plain LaTeX spelling. Meaning is kept, dress is not."""

import re
from functools import lru_cache

# Stands for a thousands separator that cannot be a list comma: ``{,}``, ``,\!``, thin spaces between digits.
GROUP = "\x01"
# Stands for a currency sign, so that no later rule takes it for a math delimiter.
DOLLAR = "\x02"

_UNICODE = {
    "\u2212": "-", "\u2013": "-", "\u2014": "-", "\u2010": "-", "\u2011": "-", "\ufe63": "-", "\uff0d": "-",
    "\uff0b": "+", "\u00d7": r"\times ", "\u22c5": r"\cdot ", "\u00b7": r"\cdot ", "\u00f7": "/", "\u2215": "/",
    "\u2044": "/", "\uff0f": "/", "\u2264": r"\le ", "\u2265": r"\ge ", "\u2a7d": r"\le ", "\u2a7e": r"\ge ",
    "\u2260": r"\ne ", "\u2248": r"\approx ", "\u2243": r"\approx ", "\u221e": r"\infty ", "\u03c0": r"\pi ",
    "\u222a": r"\cup ", "\u2229": r"\cap ", "\u2208": r"\in ", "\u00b1": r"\pm ", "\u2213": r"\mp ",
    "\u2220": r"\angle ", "\u00b0": r"^\circ ", "\u00ba": r"^\circ ", "\u2205": r"\emptyset ", "\u211d": r"\mathbb{R}",
    "\u2124": r"\mathbb{Z}", "\u2115": r"\mathbb{N}", "\u211a": r"\mathbb{Q}", "\u2102": r"\mathbb{C}",
    "\u03b1": r"\alpha ", "\u03b2": r"\beta ", "\u03b3": r"\gamma ", "\u03b4": r"\delta ", "\u03b8": r"\theta ",
    "\u03bb": r"\lambda ", "\u03bc": r"\mu ", "\u03c1": r"\rho ", "\u03c3": r"\sigma ", "\u03c6": r"\phi ",
    "\u03c9": r"\omega ", "\u27e8": r"\langle ", "\u27e9": r"\rangle ", "\u2329": r"\langle ", "\u232a": r"\rangle ",
    "\uff08": "(", "\uff09": ")", "\uff0c": ",", "\u3001": ",", "\uff1b": ";", "\uff1a": ":", "\uff05": "%",
    "\uff1d": "=", "\uff3b": "[", "\uff3d": "]", "\uff04": "$", "\uff1c": "<", "\uff1e": ">", "\uff0e": ".",
    "\u2061": "", "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\u2062": "",
    "\u00a0": " ", "\u2009": r"\,", "\u202f": r"\,", "\u2002": " ", "\u2003": " ", "\u3000": " ", "\u3002": ".",
    "\u2032": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\ufe6a": "%", "\u2192": r"\to ",
}  # fmt: skip
_VULGAR = {
    "\u00bd": "12", "\u2153": "13", "\u2154": "23", "\u00bc": "14", "\u00be": "34", "\u2155": "15", "\u2156": "25",
    "\u2157": "35", "\u2158": "45", "\u2159": "16", "\u215a": "56", "\u2150": "17", "\u215b": "18", "\u215c": "38",
    "\u215d": "58", "\u215e": "78", "\u2151": "19",
}  # fmt: skip
_TABLE = {ord(key): value for key, value in _UNICODE.items()}
_TABLE |= {ord(key): rf"\frac{{{value[0]}}}{{{value[1]}}}" for key, value in _VULGAR.items()}
_TABLE |= {0xFF10 + digit: str(digit) for digit in range(10)}
_SUPER = dict(
    zip("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207f", "0123456789-n", strict=True)
)
_SUB = dict(zip("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789", strict=True))

# Stands for the row break of a matrix.
ROW = "\x04"

_FUNCTIONS = (
    "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|infinity|infty|inf|alpha|beta"
)
_FUNCTIONS += "|gamma|delta|theta|lambda|phi|omega"
_BARE = re.compile(rf"(?<![\\A-Za-z])({_FUNCTIONS})(?![A-Za-z])")
_BARE_GLUED = re.compile(rf"(?<![\\A-Za-z])({_FUNCTIONS})(?=[({{_^])")
_TEXT = r"\\(?:text(?:bf|it|rm|tt|sf|normal)?|math(?:rm|bf|it|sf|tt)|bm|boldsymbol|mbox|hbox|emph"
_TEXT += r"|operatorname\*?|underline|boxed|fbox|bold|ensuremath|mathop|displaystyle)"
_WRAPPED = re.compile(_TEXT + r"\s*\{([^{}]*)\}")
# Colour is dress; what \\phantom and \\tag hold is not part of the answer.
_COLOUR = re.compile(r"\\(?:text)?color(?:box)?\s*(?:\[[a-zA-Z]*\])?\{[A-Za-z0-9!., ]*\}")
_UNSEEN = re.compile(r"\\(?:[hv]?phantom|tag\*?|label)\s*\{[^{}]*\}")
_SIZES = re.compile(
    r"\\(?:left|right|middle|[bB]ig[gG]?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|newline|protect"
    r"|tiny|small|normalsize|large|Large|LARGE|huge|Huge|bf|it|rm|boldmath)"
    r"(?![A-Za-z])\s*"
)
_SPACES = re.compile(r"\\(?:quad|qquad|enspace|thinspace|medspace|space|[,;:> ])|~|\\!|[\s\x00\x03\x05-\x1f\x7f]")
_ALIASES = (
    (re.compile(r"\\(?:dfrac|tfrac|cfrac|nicefrac|sfrac)(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:dbinom|tbinom)(?![A-Za-z])"), r"\\binom"),
    (re.compile(r"\\(?:leqslant|leqq|leq)(?![A-Za-z])|<=|=<"), r"\\le "),
    (re.compile(r"\\(?:geqslant|geqq|geq)(?![A-Za-z])|>=|=>"), r"\\ge "),
    (re.compile(r"\\neq(?![A-Za-z])|\\not\s*=|!="), r"\\ne "),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\(?:approxeq|simeq|doteq)(?![A-Za-z])|~=|\\thickapprox(?![A-Za-z])"), r"\\approx "),
    (re.compile(r"\\(?:lbrace)(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\lbrack(?![A-Za-z])"), "["),
    (re.compile(r"\\rbrack(?![A-Za-z])"), "]"),
    (re.compile(r"\\(?:degree|degrees)(?![A-Za-z])|\^\s*\{?\s*\\circ\s*\}?|\\textdegree(?![A-Za-z])"), "^\\\\circ "),
    (re.compile(r"\\(?:varnothing)(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"\\(?:ast|star)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\(?:lvert|rvert|vert|mid)(?![A-Za-z])"), "|"),
    (re.compile(r"\\(?:infin|infinity|inf)(?![A-Za-z])"), r"\\infty"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\\mathbb\s+R"), r"\\mathbb{R}"),
)  # fmt: skip


def _unicode(text: str) -> str:
    """Replace Unicode signs, vulgar fractions, superscripts and radicals by LaTeX."""
    if text.isascii():
        return text
    for table, mark in ((_SUPER, "^"), (_SUB, "_")):
        pieces = re.split("([" + "".join(table) + "]+)", text)
        pieces[1::2] = [f"{mark}{{{''.join(table[char] for char in run)}}}" for run in pieces[1::2]]
        text = "".join(pieces)
    text = re.sub("\u221a\\s*(?=[({])", r"\\sqrt", text)
    text = re.sub("\u221a\\s*([0-9.]+|[A-Za-z])", r"\\sqrt{\1}", text)
    return text.translate(_TABLE)


def _rows(text: str) -> str:
    """Mark the row breaks of a matrix; elsewhere two backslashes before a letter are one that was escaped twice."""
    if "\\\\" not in text:
        return text
    if "\\begin" in text:
        return re.sub(r"\\\\(?!begin|end)(?:\[[0-9.]+[a-z]+\])?|\\cr(?![A-Za-z])", ROW, text)
    return re.sub(r"\\\\(?=[A-Za-z$%\[\](){},;!])", r"\\", text).replace("\\\\", " ")


def _groups(text: str) -> str:
    """Mark thousands separators that are no list commas."""
    text = re.sub(r"\{\s*,\s*\}|,\s*\\!|\\!\s*,|,\{\}", GROUP, text)
    return re.sub(r"(?<=[0-9])(?:\\,|\\ |\\;|\\:|\\!)\s*(?=[0-9]{3}(?![0-9]))", GROUP, text)


def _dollars(text: str) -> str:
    """Keep currency signs, drop math delimiters: an escaped sign, or an odd one in front of a number."""
    text = text.replace("\\$", DOLLAR).replace("\\textdollar", DOLLAR)
    if text.count("$") % 2:
        text = re.sub(r"\$(?=\s*[0-9.])", DOLLAR, text, count=1)
    text = text.replace("$", " ")
    text = re.sub(r"\\[()]", " ", text)
    return re.sub(r"\\\[|(?<!\\)\\\]", " ", text)


def _spaced(found: re.Match[str]) -> str:
    """Content of a text wrapper, apart from what stands beside it; one letter stays a symbol unless it is a unit."""
    inner = found.group(1)
    return (
        f" {inner} "
        if len(inner.strip()) > 1 or inner.strip() in ("m", "g", "s", "h", "L", "N", "J", "W", "V")
        else inner
    )


def _unwrap(text: str) -> str:
    """Replace ``\\text{...}`` and its kin by their content, innermost first; ten levels deep."""
    for _ in range(10):
        text, count = _WRAPPED.subn(_spaced, text)
        if not count:
            break
    return text


def _argument(text: str, at: int) -> tuple[str, int] | None:
    """One TeX argument at ``at``: a brace group's content, a command or one character; with the position behind it."""
    while at < len(text) and text[at] == " ":
        at += 1
    if at >= len(text) or text[at] == "}":
        return None
    if text[at] != "{":
        command = re.compile(r"\\[A-Za-z]+").match(text, at)
        return (command.group(), command.end()) if command else (text[at], at + 1)
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[at + 1 : end], end + 1
    return None


def _braced(text: str, command: str, count: int) -> str:
    """Give ``command`` its arguments in braces: ``\\frac12`` becomes ``\\frac{1}{2}``. Innermost ones first."""
    at = text.rfind(command)
    while at >= 0:
        end = at + len(command)
        arguments = []
        if not text[end : end + 1].isalpha() and not (command == "\\sqrt" and text[end : end + 1] == "["):
            for _ in range(count):
                found = _argument(text, end)
                if found is None:
                    break
                arguments.append(found[0])
                end = found[1]
        if len(arguments) == count:
            text = text[:at] + command + "".join(f"{{{argument.strip()}}}" for argument in arguments) + text[end:]
        at = text.rfind(command, 0, at)
    return text


def _parenthesised(text: str, command: str) -> str:
    """Turn ``\\sqrt(...)`` into ``\\sqrt{...}``."""
    at = text.rfind(command + "(")
    while at >= 0:
        depth = 0
        for end in range(at + len(command), len(text)):
            depth += (text[end] == "(") - (text[end] == ")")
            if depth == 0:
                text = text[:at] + command + "{" + text[at + len(command) + 1 : end] + "}" + text[end + 1 :]
                break
        at = text.rfind(command + "(", 0, at)
    return text


@lru_cache(maxsize=8192)
def normalise(text: str) -> str:
    """One spelling for one meaning: Unicode to LaTeX, wrappers and sizes off, arguments in braces, single spaces."""
    text = _dollars(_groups(_rows(_unicode(text))))
    text = _unwrap(_COLOUR.sub("", _UNSEEN.sub(r"\\quad ", text)))
    text = _SIZES.sub("", text)
    for pattern, replacement in _ALIASES:
        text = pattern.sub(replacement, text)
    text = _BARE.sub(lambda m: "\\" + m.group(1) + ("" if m.group(1) != "inf" else "ty"), text)
    text = _BARE_GLUED.sub(r"\\\1", text).replace("\\infinity", "\\infty")
    text = _SPACES.sub(" ", text)
    text = _parenthesised(re.sub(r"\\sqrt\s+(?=\()", r"\\sqrt", text), "\\sqrt")
    for command, count in (("\\sqrt", 1), ("\\frac", 2), ("\\binom", 2)):
        text = _braced(text, command, count)
    return re.sub(r" +", " ", text).strip()


def squeeze(text: str) -> str:
    """Normalised text without spaces and needless braces, for comparing spellings."""
    text = re.sub(r"(\\[A-Za-z]+|[0-9]) +(?=[A-Za-z0-9])", "\\1\x03", text) if " " in text else text
    text = text.replace(" ", "")
    return re.sub(r"([_^])\{([A-Za-z0-9])\}", r"\1\2", text)


def balanced(text: str) -> bool:
    """Whether braces close in order."""
    depth = 0
    for at, char in enumerate(text):
        if char in "{}" and not (at and text[at - 1] == "\\"):
            depth += 1 if char == "{" else -1
            if depth < 0:
                return False
    return depth == 0
