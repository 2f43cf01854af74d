"""The single operations that level=kernels times: what one is, DeepBench's, and the tags that choose among them."""
