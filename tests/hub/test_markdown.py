import pytest

from hf_vaswani.hub.markdown import fenced, one_line, plain, table, usage_code


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a | b", r"a \| b"),
        ("`x` and \\", r"\`x\` and \\"),
        ("*a* _b_ ~~c~~ $d$", r"\*a\* \_b\_ \~\~c\~\~ \$d\$"),
        ("[a](http://b) ![c](d)", r"\[a\](http://b) !\[c\](d)"),
        ("<b>x</b> &amp; y", "&lt;b&gt;x&lt;/b&gt; &amp;amp; y"),
        ("one\ntwo\r\n\tthree\u2028four\x00five", "one two three four five"),
        ("{{ name }} {% raw %}", "{{ name }} {% raw %}"),
        ("un\u202fchat\u00a0?", "un\u202fchat\u00a0?"),
    ],
)
def test_text_stays_text(text, expected):
    assert plain(text) == expected


def test_right_to_left_text_is_isolated():
    assert one_line("مرحبا.") == "\u2068مرحبا.\u2069"
    assert one_line("\u202e\u2069שלום\u2067") == "\u2068שלום\u2069"
    assert one_line("hello\u202e") == "hello"


def test_lone_surrogate_is_replaced():
    assert plain("a\ud800b").encode() == b"a?b"


def test_table_has_one_line_per_row():
    assert table(["a", "b"], [["1", "2"], ["3", "4"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"


def test_fence_is_longer_than_any_in_the_block():
    assert fenced("a", "yaml") == "```yaml\na\n```"
    assert fenced("x ````` y", "yaml") == "``````yaml\nx ````` y\n``````"


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\u2028b", "a\u202eb", "a\x7f\x00b", "a\udc80", "{text}"])
def test_any_name_becomes_one_printable_string_literal(name):
    line = usage_code(name, "text").split("\n")[3]
    assert line.isprintable()
    called = {}
    exec(line, {"pipeline": lambda task, model: called.update(model=model)})
    assert called == {"model": name}
