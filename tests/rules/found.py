"""The rules that a review's findings name, and those of which it only informs."""

MEASURED = {"measurement.2", "measurement.4", "measurement.5"}
# They inform.
NOTES = MEASURED | {
    "package.5",
    "convergence.1",
    "runs.7",
    "model.3",
    "log.8",
    "timing.7",
    "timing.9",
    "equivalence.1",
    "system.7",
    "division.7",
}
ALWAYS = {"division.4", "runs.6"}  # what every review of one run of `mini` notes


def rules_of(findings, but=()):
    return {finding.rule for finding in findings} - set(but)
