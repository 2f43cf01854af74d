"""The suite's own keys of a log, for facts that MLPerf's vocabulary lacks, and the keys that describe a run."""

from mlperf_logging.mllog import constants as keys

RESTART = "suite_restart"
CONFIG = "suite_config"
DATASET = "suite_dataset"
ENVIRONMENT = "suite_environment"
COST = "suite_cost"
ENERGY = "suite_energy"
IMPLEMENTATION = "suite_implementation"  # whose code trains, where it is not the reference, and the sums of its files
IMPLEMENTATION_AFTER = "suite_implementation_after"  # which files had changed when the run had ended
STATE = "suite_state"  # the sum of the initial state
WITNESS = "suite_witness"
TRACKED = "tracked_stats"  # the key that MLPerf submissions use for throughput and loss along the way

INIT_LIMITS_MIN = {keys.CLOSED: 30, keys.OPEN: 240}  # MLPerf's, from init_start to run_start

# What names a run, in the configuration and in the log line with the configuration's checksum.
IDENTITY = ("run_id", "result_id", "run_index", "runs", "task", "scale", "framework")
# What describes a run, logged once, beside the hyperparameters.
HEAD = (
    keys.SUBMISSION_BENCHMARK,
    keys.SUBMISSION_ORG,
    keys.SUBMISSION_DIVISION,
    keys.SUBMISSION_STATUS,
    keys.SUBMISSION_PLATFORM,
    CONFIG,
    keys.SEED,
    keys.TRAIN_SAMPLES,
    keys.EVAL_SAMPLES,
    DATASET,
)
