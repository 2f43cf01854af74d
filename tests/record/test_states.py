"""Sums of states, and their files: what is written is read back, and what a stranger wrote is refused."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from suite.record import states
from suite.record.states import BadState, is_kept, read, read_safely, state_sha256, write

NAMES = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=20).filter(lambda n: n[-4:] != ".npy")
DTYPES = some.scalar_dtypes().filter(lambda dtype: dtype.kind in states.KINDS)
ARRAYS = some.arrays(DTYPES, some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
STATES = st.dictionaries(NAMES, ARRAYS, max_size=4)


def test_an_array_in_the_order_of_fortran_is_read_back_as_it_is(tmp_path):
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    write(tmp_path / "1.npz", {"a": array}, 1)
    for found, _ in (read(tmp_path / "1.npz"), read_safely(tmp_path / "1.npz", 1 << 20)):
        assert found["a"].tolist() == array.tolist()
        assert state_sha256(found) == state_sha256({"a": array})


@given(STATES, st.integers(0, 2**60))
def test_a_state_is_read_back_as_it_was_written(tmp_path_factory, state, samples):
    path = tmp_path_factory.mktemp("states") / "4000.npz"
    write(path, state, samples)
    found, at = read(path)
    assert at == samples
    assert state_sha256(found) == state_sha256(state)
    assert not path.with_name("4000.npz.part").exists()


def test_the_sum_tells_name_dtype_shape_and_bytes_apart_and_nothing_else():
    array = np.arange(6, dtype=np.float32)
    seen = [
        {"a": array},
        {"b": array},
        {"a": array.astype(">f4")},
        {"a": array.reshape(2, 3)},
        {"a": array.view(np.int32)},
        {"a": array, "b": array},
        {"a": array[:3], "b": array[3:]},
        {},
    ]
    assert len({state_sha256(state) for state in seen}) == len(seen)
    matrix = np.arange(12.0).reshape(3, 4)
    assert state_sha256({"b": array, "a": matrix}) == state_sha256({"a": np.asfortranarray(matrix), "b": array})


def test_the_sum_is_the_one_that_is_documented():
    state = {"w": np.array([[1, 2]], np.int16), "b": np.array(3, np.uint8)}
    number = lambda value: value.to_bytes(8, "little")  # noqa: E731
    of_b = number(1) + b"b" + number(3) + b"|u1" + number(0) + b"\x03"
    of_w = number(1) + b"w" + number(3) + b"<i2" + number(2) + number(1) + number(2) + b"\x01\x00\x02\x00"
    assert state_sha256(state) == states.hashlib.sha256(of_b + of_w).hexdigest()


def archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return path


def npy(array, allow_pickle=False):
    content = io.BytesIO()
    np.save(content, array, allow_pickle=allow_pickle)
    return content.getvalue()


SAMPLES = {"samples.npy": npy(np.array(1))}


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"state/a.npy": npy(np.zeros(2))},  # no samples
        {**SAMPLES, "a.npy": npy(np.zeros(2))},
        {**SAMPLES, "state/a": npy(np.zeros(2))},
        {**SAMPLES, "state/a.npy": b"\x93NUMPY"},
        {**SAMPLES, "state/a.npy": npy(np.zeros(2))[:-1]},
        {**SAMPLES, "state/a.npy": npy(np.array([{}], object), allow_pickle=True)},
        {**SAMPLES, "state/a.npy": pickle.dumps(np.zeros(2))},
        {**SAMPLES, "state/a.npy": npy(np.zeros(2)).replace(b"(2,)", b"(9,)")},
        {**SAMPLES, "state/a.npy": npy(np.zeros(2)).replace(b"'<f8'", b"[1,2]")},
        {"samples.npy": npy(np.array(-1))},
        {"samples.npy": npy(np.array([1]))},
    ],
)
def test_what_is_no_state_is_refused(tmp_path, members):
    with pytest.raises(BadState):
        read(archive(tmp_path / "1.npz", members))


def test_what_would_unpack_is_refused(tmp_path):
    members = {**SAMPLES, "state/a.npy": npy(np.zeros(1000))}
    with pytest.raises(BadState):
        read(archive(tmp_path / "1.npz", members, zipfile.ZIP_DEFLATED))
    with pytest.raises(BadState, match="more than 10"):
        read_safely(archive(tmp_path / "2.npz", members), 10)


def test_members_that_claim_more_than_the_file_holds_are_not_read(tmp_path, monkeypatch):
    """As two that share their bytes: what is unpacked is bounded by what was allowed of the file."""
    path = archive(tmp_path / "1.npz", {**SAMPLES, "state/a.npy": npy(np.zeros(1000)), "state/b.npy": b""})
    content = bytearray(path.read_bytes())
    a, b = (content.rindex(name) - 46 for name in (b"state/a.npy", b"state/b.npy"))  # in the central directory
    content[b + 16 : b + 28] = content[a + 16 : a + 28]  # sum and sizes
    content[b + 42 : b + 46] = content[a + 42 : a + 46]  # place
    path.write_bytes(content)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("a member was read"))
    with pytest.raises(BadState, match="or arrays of more than the file"):
        read(path)


@given(st.binary(max_size=300))
def test_noise_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("noise") / "1.npz"
    path.write_bytes(content)
    with pytest.raises(BadState):
        read(path)


def test_names_of_kept_states():
    assert [path for path in ("states", "states/0.npz", "states/4000.npz") if not is_kept(path)] == []
    refused = ("states/04.npz", "states/a.npz", "states/1.npz.part", "a/states", "states/1.npz/x", "log.txt")
    assert [path for path in refused if is_kept(path)] == []
