"""What a replica translates together, and in which order."""

import asyncio
import time

import pytest

from hf_vaswani.server.messages import Chunk
from hf_vaswani.server.model_translator import Batcher, ModelTranslator
from hf_vaswani.text.glossary import Glossary, words
from hf_vaswani.text.languages import Languages

from ..families import family, languages


def collect(batcher, chunks):
    """Give chunks to a batcher at the same time, and return what becomes of each."""

    async def run():
        return await asyncio.gather(*(batcher(chunk) for chunk in chunks), return_exceptions=True)

    return asyncio.run(run())


def shout(seen, seconds=0.0):
    def work(lane, chunks):
        seen.append((lane, [chunk.texts for chunk in chunks]))
        time.sleep(seconds)
        return [[(text.upper(),) for text in chunk.texts] for chunk in chunks]

    return work


def test_what_arrives_together_is_translated_together_and_returned_to_its_sender():
    seen = []
    chunks = [Chunk((f"a{n}", f"b{n}")) for n in range(5)]
    found = collect(Batcher(shout(seen), lambda chunk: 2), chunks)
    assert [done.translations for done in found] == [((f"A{n}",), (f"B{n}",)) for n in range(5)]
    assert len(seen) == 1 and found[0].batch_tokens == 10


def test_what_waits_while_the_engine_is_busy_becomes_one_batch():
    seen = []
    batcher = Batcher(shout(seen, 0.05), lambda chunk: 1)

    async def run():
        first = asyncio.ensure_future(batcher(Chunk(("first",))))
        await asyncio.sleep(0.01)
        rest = [asyncio.ensure_future(batcher(Chunk((str(n),)))) for n in range(4)]
        await asyncio.gather(first, *rest)

    asyncio.run(run())
    assert [texts for _, texts in seen] == [[("first",)], [("0",), ("1",), ("2",), ("3",)]]


def test_lanes_share_what_waits_and_batches_keep_their_limit():
    seen = []
    collect(Batcher(shout(seen, 0.02), lambda chunk: 10, lanes=2), [Chunk((str(n),)) for n in range(8)])
    assert sorted(len(texts) for _, texts in seen) == [4, 4] and {lane for lane, _ in seen} == {0, 1}
    seen.clear()
    collect(Batcher(shout(seen), lambda chunk: 10, batch_tokens=30), [Chunk((str(n),)) for n in range(7)])
    assert [len(texts) for _, texts in seen] == [3, 3, 1]


def test_texts_of_about_the_same_length_are_translated_together_and_the_oldest_is_among_them():
    seen = []
    texts = ["a" * length for length in (10, 1, 9, 2, 11, 3)]
    batcher = Batcher(shout(seen), lambda chunk: len(chunk.texts[0]), batch_tokens=30)
    collect(batcher, [Chunk((text,)) for text in texts])
    assert [[len(text) for (text,) in chunks] for _, chunks in seen] == [[10, 9, 11], [1, 2, 3]]


def test_failed_batch_is_an_error_for_its_senders_alone():
    def work(lane, chunks):
        if chunks[0].texts == ("bad",):
            raise MemoryError("too large")
        return [[("good",)] for _ in chunks]

    found = collect(Batcher(work, lambda chunk: 1, batch_tokens=1), [Chunk(("bad",)), Chunk(("a",))])
    assert isinstance(found[0], MemoryError) and found[1].translations == (("good",),)


def test_text_of_a_caller_that_has_gone_is_not_translated():
    seen = []
    batcher = Batcher(shout(seen, 0.05), lambda chunk: 1)

    async def run():
        first = asyncio.ensure_future(batcher(Chunk(("first",))))
        await asyncio.sleep(0.01)
        gone, stays = (asyncio.ensure_future(batcher(Chunk((name,)))) for name in ("gone", "stays"))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.gather(first, stays)

    asyncio.run(run())
    assert [texts for _, texts in seen] == [[("first",)], [("stays",)]]


def test_terms_are_obeyed_also_those_that_the_tokenizer_cannot_spell(tmp_path):
    model, tokenizer = family("Marian", tmp_path)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    [lane, *_] = ModelTranslator(str(tmp_path / "model")).loaded.lanes
    plain, obeys, strange = (
        Chunk(("ein hund",), glossaries=(Glossary.of({"hund": term}),) if term else ()) for term in ("", "wiese", "Ж")
    )
    (first,), (second,), (third,) = lane.translate([plain, obeys, strange])
    assert first == lane.translate([plain])[0][0] and "wiese" not in first.hypotheses[0]
    assert "wiese" in words(second.hypotheses[0])
    assert "Ж" in words(third.hypotheses[0])


def test_what_a_server_keeps_stays_as_it_is(tmp_path):
    model, tokenizer = family("Marian", tmp_path)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    chunk = Chunk(("ein hund",))
    for keep in ([], [r"\bhund\b"]):
        [lane, *_] = ModelTranslator(str(tmp_path / "model"), keep=keep).loaded.lanes
        assert ("hund" in words(lane.translate([chunk])[0][0].hypotheses[0])) == bool(keep)


def test_languages_of_clients_do_not_mix(tmp_path):
    model, tokenizer = family("M2M100", tmp_path)
    model.generation_config.update(max_length=12, num_beams=2, early_stopping=True)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    codes = languages("M2M100")
    there, back = Languages(*codes.values()), Languages(*reversed(codes.values()))
    chunks = [Chunk(("ein hund", "die wiese"), kind) for kind in (there, back) * 4]
    [lane, *_] = ModelTranslator(str(tmp_path / "model")).loaded.lanes
    together = lane.translate(chunks)
    alone = [lane.translate([chunk])[0] for chunk in chunks]
    assert together == alone and together[0] != together[1]


def test_model_that_cannot_be_opened_again_leaves_the_old_one(tmp_path):
    model, tokenizer = family("Marian", tmp_path)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    translator = ModelTranslator(str(tmp_path / "model"))
    before, [lane, *_] = translator.version, translator.loaded.lanes
    weights = tmp_path / "model" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Exception, match="model.safetensors"):
        asyncio.run(translator.reload("new"))
    assert translator.version == before and translator.loaded.lanes[0] is lane
    weights.write_bytes(whole)
    assert asyncio.run(translator.reload(before)) == (translator.id, False)
    assert asyncio.run(translator.reload("new")) == (translator.id, True)
    assert translator.version == "new" and translator.loaded.lanes[0] is not lane
