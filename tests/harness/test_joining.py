"""How workers find their leader."""

import itertools
import socket
from types import SimpleNamespace

import numpy as np
import pytest

from suite.errors import UserError
from suite.harness.workers import leading, place
from suite.harness.workers.channel import Channel, connect, free_port, listen
from suite.harness.workers.leading import Followers
from suite.harness.workers.led import Led
from suite.harness.workers.place import LOCALHOST, Place, find
from suite.harness.workers.sameness import told


def test_what_connects_and_says_nothing_keeps_no_worker_out():
    followers = Followers(Place(0, 2, port=free_port(), key="key", launcher="torchrun"))
    with socket.create_connection((LOCALHOST, followers.place.port)):
        connect(LOCALHOST, followers.place.port, followers.place.key, within_s=60.0).close()
    followers.close()


def test_the_leader_is_found_at_the_address_by_which_other_nodes_know_it():
    """Its own name may lead it to 127.0.1.1, as Debian and Ubuntu have it; the node is one host."""
    own = Place(0, 4, local_size=2, host="127.0.1.1", port=free_port(), key="key", launcher="torchrun")
    followers = Followers(own)
    for rank, node, host in ((1, 0, own.host), (2, 1, "127.0.0.2"), (3, 1, "127.0.0.2")):
        channel = Channel(connect(host, own.port, own.key, within_s=60.0), lambda why: None)
        channel.send("hello", rank=rank, node=node, address=channel.local_host(), port=rank, **told())
    followers.join([])
    assert [each.rpartition(":")[0] for each in followers.addresses] == ["127.0.0.2"] * 2 + [LOCALHOST] * 2
    followers.close()


@pytest.mark.parametrize(
    ("nodes", "told_of"),
    [((0, 1, 2, 2, 2), "rank 2 on .* is one of 1 on its node"), ((0, 1, 1, 2, 3), "rank 4")],
)
def test_nodes_of_more_or_fewer_workers_than_the_leaders_are_one_line(nodes, told_of):
    """Of six in all, as a system of three nodes of two has."""
    own = Place(0, 6, local_size=2, port=free_port(), key="key", launcher="torchrun")
    followers = Followers(own)
    for rank, node in enumerate(nodes, 1):
        channel = Channel(connect(LOCALHOST, own.port, own.key, within_s=60.0), lambda why: None)
        channel.send("hello", rank=rank, node=node, address=LOCALHOST, port=rank, **told())
    with pytest.raises(UserError, match=rf"{told_of}.*, the leader of 2: start as many on each$"):
        followers.join([])
    followers.close()


def test_the_port_of_the_leaders_framework_is_nobodys_until_it_builds():
    own = Place(0, 2, local_size=2, port=free_port(), key="key", launcher="torchrun")
    followers = Followers(own)
    channel = Channel(connect(LOCALHOST, own.port, own.key, within_s=60.0), lambda why: None)
    channel.send("hello", rank=1, node=0, address=LOCALHOST, port=1, **told())
    followers.join([])
    port = int(followers.addresses[0].rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        listen(LOCALHOST, port, 1)
    channel.send("done")
    Led.build(lambda: listen(LOCALHOST, port, 1).close(), followers)
    followers.close()


def test_a_state_is_packed_once_for_all(monkeypatch):
    packings, savez = [], np.savez
    monkeypatch.setattr(np, "savez", lambda *given, **arrays: packings.append(arrays) or savez(*given, **arrays))
    own = Place(0, 3, local_size=3, port=free_port(), key="key", launcher="torchrun")
    followers = Followers(own)
    channels = [Channel(connect(LOCALHOST, own.port, own.key, within_s=60.0), lambda why: None) for _ in range(2)]
    for rank, channel in enumerate(channels, 1):
        channel.send("hello", rank=rank, node=0, address=channel.local_host(), port=rank, **told())
    followers.join([])
    followers.tell("load_state_dict", {"weight": np.arange(3.0)})
    for channel in channels:
        assert channel.inbox.get(timeout=30)["state"]["weight"].tolist() == [0, 1, 2]
    assert len(packings) == 1
    followers.close()


@pytest.mark.parametrize(
    ("launcher", "within", "host", "shown"),
    [("torchrun", "300 s", "::1", r"\[::1\]"), ("suite", "45 s", LOCALHOST, LOCALHOST)],
)
def test_nodes_may_start_minutes_apart(monkeypatch, launcher, within, host, shown):
    passed = itertools.count(step=400)
    monkeypatch.setattr(leading, "time", SimpleNamespace(monotonic=lambda: next(passed)))
    followers = Followers(Place(0, 2, host=host, port=free_port(), key="key", launcher=launcher))
    with pytest.raises(UserError, match=rf"of 2 workers rank 1 did not join the leader at {shown}:\d+ within {within}"):
        followers.join([])
    followers.close()


TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
TORCHRUN |= {"MASTER_ADDR": LOCALHOST, "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "key"}


@pytest.mark.parametrize(("name", "port"), [("SUITE_PORT", "70000"), ("SUITE_PORT", "x"), ("MASTER_PORT", "65535")])
def test_a_port_that_there_is_not_is_one_line(name, port):
    with pytest.raises(UserError, match=r"SUITE_PORT=(70000|x|65536) is not a whole number from 1 to 65,535"):
        find({**TORCHRUN, name: port})


def test_torchrun_in_a_job_that_slurm_requeues_starts_again():
    assert find({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "0", "SLURM_RESTART_COUNT": "1"}).restarts == 1


@pytest.mark.parametrize("told", [{"OMPI_COMM_WORLD_SIZE": "4"}, {"PMI_SIZE": "8"}, {"RANK": "1", "WORLD_SIZE": "2"}])
def test_another_launcher_is_refused(told):
    """Of which each process would take the whole machine for a run of its own."""
    with pytest.raises(UserError, match=r"_SIZE=[248]: a launcher that is neither torchrun nor srun"):
        find(told)


def test_what_srun_tells_mpi_beside_its_own_is_no_other_launcher():
    """`srun --mpi=pmi2` sets PMI_SIZE; mpirun, that srun starts on each node, has more processes than nodes."""
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
    with pytest.raises(UserError, match="PMI_SIZE=4"):
        find({**step, "PMI_SIZE": "4"})
    assert find({"WORLD_SIZE": ""}) == find({})
    with pytest.raises(UserError, match="SLURM_STEP_NODELIST"):  # the first that _slurm() asks for
        find({**step, "PMI_SIZE": "2"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a,b", "a"), ("gpu[003-010,012],login", "gpu003"), ("n[7,9]-c[2-3]-x,y", "n7-c2-x")],
)
def test_the_first_of_slurms_nodes_leads_also_where_no_command_of_slurm_is_installed(monkeypatch, nodes, first):
    monkeypatch.setattr(place, "_address_of_node", lambda name: name)
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_STEP_NODELIST": nodes, "SLURM_JOB_ID": "1"}
    step |= {"SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2"}
    assert find(step).host == first


def test_a_distribution_that_may_put_the_leader_on_any_node_is_one_line():
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0", "SLURM_DISTRIBUTION": "arbitrary"}
    with pytest.raises(UserError, match="srun --distribution=arbitrary, or SLURM_HOSTFILE, may start rank 0"):
        find(step)
