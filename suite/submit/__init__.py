"""Make a submission of runs: collect, describe, seal and check them, and only then write them to their place.

<org>/submission.json                                           the seal: sha256 of every file, what is missing
<org>/systems/<system>.json                                     MLPerf's system description
<org>/results/<system>/<benchmark>/run_<i>/...                  the evidence, as the suite wrote it
<org>/results/<system>/<benchmark>/result_<i-1>.txt             its log again, under MLPerf's name
<org>/benchmarks/<benchmark>/implementations/<revision>/...     the code of the task, as it was run
<org>/benchmarks/<benchmark>/implementations/<revision>-<sum>/implementation/...  and the submitter's own code
"""
