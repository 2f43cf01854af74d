"""What a log tells of the course of a run: its intervals, and those that a restart lost."""

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import RESTART
from suite.record.history import Event, history


def told(*events):
    return [(each.name, each.start_s, each.stop_s) for each in history([Event(*each) for each in events]).intervals]


def test_what_a_restart_lost_began_where_the_last_interval_began_or_ended():
    begun = (10.0, keys.RUN_START), (11.0, keys.BLOCK_START)
    assert told(*begun, (14.0, RESTART), (15.0, keys.BLOCK_START))[1] == ("lost", 1.0, 4.0)
    evaluated = (12.0, keys.EVAL_START), (13.0, keys.EVAL_STOP), (14.0, keys.BLOCK_STOP)
    assert told(*begun, *evaluated, (16.0, RESTART))[-1] == ("lost", 4.0, 6.0)


def test_history_of_many_evaluations_ends_as_its_log_does():
    evaluations = [Event(float(at), "eval_accuracy", at / 500, at) for at in range(1, 501)]
    made = history([Event(0.0, "run_start"), *evaluations])
    assert (len(made.points), made.points[-1].samples, made.left_out) == (400, 500, 100)
