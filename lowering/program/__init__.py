"""Fourth stage: kernels stamped at planned addresses into queues, with waits and copies."""
