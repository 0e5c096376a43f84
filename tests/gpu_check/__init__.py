"""Checks of the package on an accelerator: right numbers, training steps, memory and speed, with random models.

    make gpu-check                                              # on a machine with CUDA and without a registry
    python -m tests.gpu_check --output runs/gpu-check.json      # in an environment that is complete

One JSON has the machine, each check with its numbers or its error, and whether all passed. Without an accelerator the
same checks run on the CPU with smaller models.
"""
