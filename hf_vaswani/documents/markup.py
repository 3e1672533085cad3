"""HTML and XML: which text is a sentence, and which tags are within one."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from xml.parsers import expat

from ..errors import InputError
from ..text.xml_entities import refuse_entities
from .escaping import MARKUP, PLAIN, QUOTED, Escaping
from .parts import Builder, Parts, has_words
from .tag_placement import Kind

# Elements of HTML whose text is not for readers.
UNTRANSLATED = ("script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
# Elements of HTML within a sentence.
INLINE = (
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "del", "dfn", "em", "font", "i", "img", "ins", "label",
    "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr",
    "code", "kbd", "samp", "var",
)  # fmt: skip
# Elements of HTML that end a sentence; of what else looks like a tag in a text, some is a placeholder.
BLOCKS = (
    "address", "article", "aside", "blockquote", "body", "br", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr",
    "html", "li", "main", "nav", "ol", "option", "p", "pre", "section", "select", "summary", "table", "tbody", "td",
    "tfoot", "th", "thead", "tr", "ul",
)  # fmt: skip
# Those whose end tag may be missing, or that have none.
OPTIONAL_END = ("br", "dd", "dt", "hr", "li", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr")
CODE = ("script", "style")  # also in XML that is not HTML
NOTES, NOTE_TOKENS = ("sup", "sub"), 8
# A tag of XML, or how something else begins, and where that ends.
XML_MARKUP = re.compile(
    r"<!--|<!\[CDATA\[|<\?|<!DOCTYPE|</?[^\W\d](?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>",
)
XML_ENDS = {
    "<!--": re.compile(r".*?-->", re.DOTALL),
    "<![CDATA[": re.compile(r".*?\]\]>", re.DOTALL),
    "<?": re.compile(r".*?\?>", re.DOTALL),
    "<!DOCTYPE": re.compile(r"[^<>\[]*(?:\[(?:[^\]]|\](?!\s*>))*\]\s*)?>"),
}
HTML_START = re.compile(r"<!--|<[!?%]|</?(?P<name>[a-zA-Z][^\s/>]*)")
HTML_ENDS = {"<!--": "-->", "<%": "%>"}  # `<%= name %>` of templates
# `{{ name }}` and `{% if … %}` of others.
TEMPLATE = re.compile(r"\{\{(?:(?!\{\{)[\s\S])*?\}\}|\{%(?:(?!\{%)[\s\S])*?%\}")
# An address of any scheme, as in `ssh://host/path`.
ADDRESS = r"(?<![\w+.-])[A-Za-z][A-Za-z\d+.-]*://(?:[^\s<>\"'`()\[\]{}|\\^«»“”„]*[\w/#=&+~$@%*-])?"
XHTML = re.compile(r"""\sxmlns(?::[\w.-]+)?\s*=\s*["']http://www\.w3\.org/1999/xhtml["']""")
ATTRIBUTE = re.compile(r"""[\s/]+|[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*)?)?""")
# Attributes of HTML that readers see or hear; in `<meta>` and `<input>`, other attributes decide whether they do.
READ_ATTRIBUTES = ("abbr", "alt", "aria-description", "aria-label", "label", "placeholder", "title")
_PAGE = "description|keywords|(?:og|twitter):(?:title|description|image:alt)"
READ_WITH = {
    "meta": ("content", re.compile(rf"""\s(?:name|property)\s*=\s*["']?(?:{_PAGE})(?=["'\s/>])""", re.IGNORECASE)),
    "input": ("value", re.compile(r"""\stype\s*=\s*["']?(?:button|submit|reset)(?=["'\s/>])""", re.IGNORECASE)),
}
VALUE = re.compile(r"""([^\s=]+)\s*=\s*(["'])(.*)\2""", re.DOTALL)
RAW_TEXT = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
CDATA, CDATA_END = "<![CDATA[", "]]>"
TAG_NAME = re.compile(r"</?\s*([^\s/>]+)")
# The last one is of XLIFF.
EXCLUDED = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b|\smtype\s*=\s*["']protected["']""",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """Text, or a tag.

    Attributes:
        kind: `None` for text.
        name: of the element; "" for comments and the like.
    """

    raw: str
    kind: Kind | None = None
    name: str = ""


def read_html(content: str) -> Parts:
    """HTML, a whole document or a part of one, and with what templates replace."""
    return _read_tokens(_html_tokens(content), is_html=True, add_text=add_template)


def add_template(builder: Builder, raw: str) -> None:
    """Add text with what templates replace."""
    done = 0
    for match in TEMPLATE.finditer(raw):
        builder.text(raw[done : match.start()])
        builder.tag(match[0])
        done = match.end()
    builder.text(raw[done:])


def read_xml_tokens(tokens: Sequence[Token]) -> Parts:
    """An XML document; one with XHTML in it is read by the rules of HTML."""
    return _read_tokens(
        tokens, is_html=any("/1999/xhtml" in token.raw and XHTML.search(token.raw) for token in tokens)
    )


def read_markup(
    content: str, is_html: bool = True, ignored: Collection[str] = (), splitting: Collection[str] = ()
) -> Parts:
    """HTML or XML, a whole document or a part of one. Nothing in it is an error.

    Args:
        is_html: whether it is HTML.
        ignored: names of elements whose text stays as it is.
        splitting: names of elements that end a sentence, for XML.
    """
    return _read_tokens(_html_tokens(content) if is_html else xml_tokens(content), is_html, ignored, splitting)


def _read_tokens(
    tokens: Iterable[Token],
    is_html: bool,
    ignored: Collection[str] = (),
    splitting: Collection[str] = (),
    add_text: Callable[[Builder, str], None] = Builder.text,
    escaping: Escaping = MARKUP,
) -> Parts:
    """Text and tags of HTML or XML.

    Args:
        add_text: adds text to a sentence.
        is_html: whether the elements of HTML are known: which are within sentences, and which are not for readers.
    """
    skipped = {name.lower() for name in ignored} | (set(UNTRANSLATED) if is_html else set())
    tokens = list(join_kept(tokens, skipped))
    if is_html:
        tokens = list(_join_notes(tokens))
        is_within = [not token.name or _local(token.name) in INLINE for token in tokens]
    else:
        is_within = _within_text(tokens, {name.lower() for name in splitting})
    builder, name = Builder(escaping), ""
    for token, within in zip(tokens, is_within):
        if token.kind is None:
            add_text(builder, token.raw)
        elif token.raw.startswith(CDATA) and token.raw.endswith(CDATA_END):
            builder.keep(token.raw if _local(name) in CODE else read_cdata(token.raw))
        else:
            name = token.name
            raw = _read_attributes(token.raw) if is_html else token.raw
            if within:
                builder.tag(raw, token.kind, token.name)
            else:
                builder.keep(raw)
    return builder.build()


def cdata_text(raw: str) -> str:
    """The content of a CDATA section."""
    return raw[len(CDATA) : -len(CDATA_END)]


def read_cdata(
    raw: str,
    add_text: Callable[[Builder, str], None] = Builder.text,
    markup: Escaping = MARKUP,
    plain: Escaping = PLAIN,
) -> Parts:
    """A CDATA section, with HTML or plain text in it, each with its escaping, which `add_text` adds to a sentence."""
    inner = cdata_text(raw)
    if HTML_START.search(inner):
        parts = _read_tokens(_html_tokens(inner), is_html=True, add_text=add_text, escaping=markup)
    else:
        builder = Builder(plain)
        add_text(builder, inner)
        parts = builder.build()
    # Its own end within the text is divided among two sections.
    divided = Parts([parts], lambda filled: filled.replace(CDATA_END, f"]]{CDATA_END}{CDATA}>"))
    return Parts([CDATA, divided, CDATA_END])


def _read_attributes(raw: str) -> str | Parts:
    """A tag of HTML with what readers see of its attributes; the tag as it is if they see nothing."""
    start = HTML_START.match(raw)
    if not start or not start["name"] or _tag_end(raw, start)[0] < len(raw):  # or a whole element that stays
        return raw
    read_with, sign = READ_WITH.get(start["name"].lower(), ("", None))
    at, done = start.end(), 0
    attributes: list[tuple[int, str]] = []
    while at < len(raw) and raw[at] != ">":
        attributes.append((at, ATTRIBUTE.match(raw, at)[0]))
        at += len(attributes[-1][1])
    is_read = sign and any(sign.match(f" {attribute}>") for _, attribute in attributes)
    names = (*READ_ATTRIBUTES, read_with) if is_read else READ_ATTRIBUTES
    parts: list[str | Parts] = []
    for at, attribute in attributes:
        value = VALUE.fullmatch(attribute)
        if value and value[1].lower() in names and has_words(value[3]):
            builder = Builder(QUOTED[value[2]])
            builder.text(value[3])
            parts += [raw[done : at + value.start(3)], builder.build()]
            done = at + value.end(3)
    return Parts([*parts, raw[done:]]) if parts else raw


def add_tag(builder: Builder, raw: str, tag: str = "", is_mention: bool = False) -> None:
    """Add a tag of HTML, or one like it, to the current sentence, which one of a block ends.

    Args:
        tag: what `raw` means, where that is another thing.
        is_mention: whether a tag without its counterpart is only spoken of, as in "the <body> tag".
    """
    tag = tag or raw
    name = TAG_NAME.match(tag)[1].lower()
    is_single = tag.endswith("/>") or name in VOID
    if name in BLOCKS and (not is_mention or name in OPTIONAL_END):
        builder.keep(raw)
    else:
        builder.tag(raw, Kind.CLOSE if tag.startswith("</") else Kind.ALONE if is_single else Kind.OPEN, name)


def _local(name: str) -> str:
    """The name of an element without its prefix, in lower case."""
    return name.rpartition(":")[2].lower()


def join_kept(tokens: Iterable[Token], skipped: Set[str]) -> Iterator[Token]:
    """The tokens, with each element that stays as it is as a single one.

    Args:
        skipped: names of such elements in lower case, besides those with `translate="no"`.
    """
    kept: list[str] = []
    path: list[str] = []  # of the elements that are open, from the one that stays on
    names: Counter[str] = Counter()  # in the path
    first = None
    for token in tokens:
        if first is not None and token.kind is Kind.CLOSE and not names[token.name]:  # an end tag is missing
            yield replace(first, raw="".join(kept), kind=Kind.ALONE)
            first = None
        if first is not None:
            kept.append(token.raw)
            if token.kind is Kind.OPEN:
                path.append(token.name)
                names[token.name] += 1
            elif token.kind is Kind.CLOSE:
                closed = None
                while closed != token.name:
                    closed = path.pop()
                    names[closed] -= 1
            if not path:
                yield replace(first, raw="".join(kept), kind=Kind.ALONE)
                first = None
        elif token.kind is Kind.OPEN and (
            not skipped.isdisjoint((token.name.lower(), _local(token.name))) or EXCLUDED.search(token.raw)
        ):
            first, path, names, kept = token, [token.name], Counter([token.name]), [token.raw]
        else:
            yield token
    if first is not None:
        yield replace(first, raw="".join(kept), kind=Kind.ALONE)


def _join_notes(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens, with each superscript or subscript without words, such as a footnote's mark, as a single one."""
    number = 0
    while number < len(tokens):
        token, end = tokens[number], number
        if token.kind is Kind.OPEN and token.name in NOTES:
            last = min(number + NOTE_TOKENS, len(tokens))
            end = next((n for n in range(number + 1, last) if tokens[n].name == token.name), number)
            if any(one.kind is None and has_words(one.raw) for one in tokens[number:end]):
                end = number
        yield (
            token
            if end == number
            else replace(token, raw="".join(t.raw for t in tokens[number : end + 1]), kind=Kind.ALONE)
        )
        number = end + 1


def _within_text(tokens: Sequence[Token], splitting: set[str]) -> list[bool]:
    """Which tags are in sentences: those whose parent has text of its own, or is such a tag with a single child."""
    path, parents = [-1], []
    has_text, children = set(), {}
    for number, token in enumerate(tokens):
        if token.kind is Kind.CLOSE and len(path) > 1:
            parents.append(path.pop())
            continue
        parents.append(path[-1])
        if token.kind is None and token.raw.strip():
            has_text.add(path[-1])
        elif token.kind is not None and token.name:
            children[path[-1]] = children.get(path[-1], 0) + 1
        if token.kind is Kind.OPEN:
            path.append(number)
    within: list[bool] = []
    for token, parent in zip(tokens, parents):
        if token.kind is Kind.CLOSE:  # as its opening tag, which is its "parent"
            within.append(within[parent] if parent >= 0 else False)
            continue
        is_single = parent >= 0 and within[parent] and children.get(parent) == 1
        is_text = parent in has_text or is_single
        within.append(is_text and token.name.lower() not in splitting)
    return within


def _shared(token: Token, bare: dict[str, Token]) -> Token:
    """One token for all equal tags without attributes; large documents have many of them."""
    return bare.setdefault(token.raw, token) if len(token.raw) <= len(token.name) + 3 else token


def _html_tokens(content: str) -> Iterator[Token]:
    """The text and the tags of HTML, as browsers find them, which make up the content again."""
    bare: dict[str, Token] = {}
    done = at = 0
    while start := HTML_START.search(content, at):
        name = start["name"] or ""
        end, is_closed = _tag_end(content, start)
        if start.start() > done:
            yield Token(content[done : start.start()])
        raw = content[start.start() : end]
        is_closed |= name.lower() in VOID
        kind = Kind.ALONE if is_closed else Kind.CLOSE if raw.startswith("</") else Kind.OPEN
        yield _shared(Token(raw, kind, name.lower()), bare)
        done = at = end
        if kind is Kind.OPEN and name.lower() in RAW_TEXT:
            found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(content, at)
            at = found.start() if found else len(content)
    if done < len(content):
        yield Token(content[done:])


def _tag_end(content: str, start: re.Match[str]) -> tuple[int, bool]:
    """Where a tag or a comment ends, at the latest with the content, and whether it is complete in itself."""
    if not start["name"]:
        mark = HTML_ENDS.get(start[0], ">")
        found = content.find(mark, start.start() + 2)
        return found + len(mark) if found >= 0 else len(content), True
    at, last = start.end(), ""
    while at < len(content) and content[at] != ">":
        last = ATTRIBUTE.match(content, at)[0]
        at += len(last)
    # The slash of <a href=x/> belongs to the attribute.
    return min(at + 1, len(content)), at == len(content) or last.strip().strip("/") == "" != last.strip()


def xml_tokens(content: str) -> list[Token]:
    """The text and the tags of XML, which make up the content again."""
    tokens: list[Token] = []
    bare: dict[str, Token] = {}
    unclosed: set[str] = set()  # what has no end in the rest of the content, and is text
    done = at = 0
    while start := XML_MARKUP.search(content, at):
        at, opening = start.end(), start[0]
        is_tag = opening not in XML_ENDS
        if not is_tag:
            closing = None if opening in unclosed else XML_ENDS[opening].match(content, at)
            if closing is None:
                unclosed.add(opening)
                continue
            at = closing.end()
        if start.start() > done:
            tokens.append(Token(content[done : start.start()]))
        raw, done = content[start.start() : at], at
        if is_tag:
            kind = Kind.CLOSE if raw.startswith("</") else Kind.ALONE if raw.endswith("/>") else Kind.OPEN
            tokens.append(_shared(Token(raw, kind, TAG_NAME.match(raw)[1]), bare))
        else:
            tokens.append(Token(raw, Kind.ALONE))
    return [*tokens, Token(content[done:])] if done < len(content) else tokens


def check_xml(content: str, where: str = "") -> None:
    """Check that XML is well-formed, and declares no entities that a reader could be attacked with.

    Nothing is ever fetched.

    Args:
        where: which part of a document it is, to begin the message.

    Raises:
        InputError: it is not; the message names line and column.
    """
    parser = expat.ParserCreate("utf-8")

    refuse_entities(parser, lambda: f"{where}Line {parser.CurrentLineNumber}, column {parser.CurrentColumnNumber + 1}")
    parser.DefaultHandler = lambda text: None  # references to entities stay as they are
    try:
        parser.Parse(content.encode(), True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise InputError(f"{where}Line {error.lineno}, column {error.offset + 1}: {what}. Correct it.") from None
