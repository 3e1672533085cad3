"""Text in UTF-8 that was read in another encoding."""

import pytest

from hf_vaswani.text.inputs import looks_like_mojibake


@pytest.mark.parametrize("text", ["Ein Hund läuft über die Straße.", "It’s “fine” – €5", "Привет, мир", "今日は", "à"])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_utf_8_read_byte_by_byte_is_recognized(text, encoding):
    wrong = text.encode().decode(encoding, "surrogateescape" if encoding == "cp1252" else "strict")
    wrong = "".join(chr(ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c for c in wrong)  # as browsers read it
    assert looks_like_mojibake(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "Ein Hund läuft über die Straße.", "Das macht „Spaß“, ja „Spaß…“", "« La liberté\xa0» à\xa0«\xa0eux\xa0»",
        "„Ä“ und „É”", "BOM DIA, MANHÃ… IRMÃ”", "NÃO, São", "Привет", "今日は", "10 € – 20 £", "Âge, Île, Đà Nẵng",
    ],
)  # fmt: skip
def test_text_in_its_own_encoding_is_not_taken_for_mojibake(text):
    assert not looks_like_mojibake(text)
