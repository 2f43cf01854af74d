"""A trained model under load.

`model` answers requests, each for one test example; `batching` gathers those that wait; `scenarios` asks as MLPerf
inference does, with its LoadGen; `rate` finds the most that a bound on the latency allows; `web` lies between, where
the load comes over HTTP.
"""
