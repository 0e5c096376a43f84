"""judge: whether two answers mean the same, by equality, values and a model; knows nothing of readers and beliefs."""
