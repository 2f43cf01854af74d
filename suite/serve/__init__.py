"""A trained model under load.

`model` answers requests, each for one test example; `batching` groups requests that wait; `scenarios` puts load on as
MLPerf inference does, with its LoadGen; `rate` finds the highest rate that a bound on the latency allows; `web` serves
the model, and carries the load, over HTTP.
"""
