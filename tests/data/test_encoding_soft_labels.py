"""Soft labels in files, and in batches."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from hf_vaswani.data.encoding import Collator, EncodedPairs, read_soft_labels, write_soft_labels

PROBABILITIES_FILE = "probabilities.npy"
LENGTHS = np.array([2, 1, 3])


def labels_of(row: int) -> tuple[np.ndarray, np.ndarray]:
    """Two tokens at each position of a pair, different for each pair and position."""
    ids = 10 * row + np.arange(2 * LENGTHS[row]).reshape(-1, 2)
    return ids, np.full(ids.shape, [0.75, 0.25]) - row / 16


@pytest.fixture
def folder(tmp_path):
    batches = ((np.array(rows), [labels_of(row) for row in rows]) for rows in ([2, 0], [1]))
    write_soft_labels(tmp_path, LENGTHS, 2, batches)
    return tmp_path


def test_labels_of_each_pair_are_those_that_were_written(folder):
    labels = read_soft_labels(folder, LENGTHS, 2)
    for row in range(3):
        for found, written in zip(labels.of(row), labels_of(row)):
            assert found.tolist() == written.tolist()


@pytest.mark.parametrize(("lengths", "k"), [([2, 1, 2], 2), ([2, 1, 3], 3)], ids=["other pairs", "more tokens"])
def test_labels_of_other_pairs_or_of_more_tokens_are_damage(folder, lengths, k):
    with pytest.raises(ValueError, match="contains soft labels for 6 positions, 2 each"):
        read_soft_labels(folder, np.array(lengths), k)


def test_truncated_file_is_damage(folder):
    path = folder / PROBABILITIES_FILE
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError):
        read_soft_labels(folder, LENGTHS, 2)


def test_batches_hold_labels_padded_with_probability_0(folder):
    sides = [[5] * length for length in LENGTHS.tolist()]
    encoded = EncodedPairs.of(sides, sides)
    pairs = EncodedPairs(encoded.dataset, LENGTHS, LENGTHS, soft_labels=read_soft_labels(folder, LENGTHS, 2))
    batch = Collator(0)(pairs.rows(np.array([1, 2])))
    assert batch["soft_label_ids"].tolist() == [[[10, 11], [0, 0], [0, 0]], [[20, 21], [22, 23], [24, 25]]]
    ones, twos = [0.6875, 0.1875], [0.625, 0.125]
    assert batch["soft_label_probabilities"].tolist() == [[ones, [0, 0], [0, 0]], [twos] * 3]


def test_another_process_opens_the_files_instead_of_receiving_their_content(tmp_path):
    lengths = np.array([50_000])
    write_soft_labels(tmp_path, lengths, 2, iter([(np.array([0]), [(np.ones((50_000, 2)), np.ones((50_000, 2)))])]))
    sent = pickle.dumps(read_soft_labels(tmp_path, lengths, 2))
    assert len(sent) < 1000
    assert pickle.loads(sent).ids.sum() == 100_000


def test_full_disk_is_an_error_while_writing(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("/dev/full is only on Linux")
    (tmp_path / PROBABILITIES_FILE).symlink_to(full)
    big = np.ones((500_000, 2))
    with pytest.raises(OSError, match="No space left"):
        write_soft_labels(tmp_path, np.array([500_000]), 2, iter([(np.array([0]), [(big, big)])]))
