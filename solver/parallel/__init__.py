"""Independent questions to the models, answered by worker processes: the same answers, sooner."""
