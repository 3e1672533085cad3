import pytest

from hf_vaswani.hub.markdown import usage_code


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\u2028b", "a\u202eb", "a\x7f\x00b", "a\udc80", "{text}"])
def test_any_name_becomes_one_printable_string_literal(name):
    line = usage_code(name, "text").split("\n")[3]
    assert line.isprintable()
    called = {}
    exec(line, {"pipeline": lambda task, model: called.update(model=model)})
    assert called == {"model": name}
