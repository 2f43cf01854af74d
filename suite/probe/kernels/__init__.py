"""Single operations, which level=kernels times: definitions, DeepBench's list, and tags that choose among them."""
