#!/bin/bash
# Any command of ours on the nodes of a SLURM job, one process a GPU; submit it where configs/ is, on a disk that all share:
#   sbatch configs/slurm/two_nodes.sh label --input questions.jsonl --output_dir runs/mine
#   sbatch configs/slurm/two_nodes.sh train retriever --config configs/retriever/demo.yaml
# A job that is stopped or requeued resumes.
#SBATCH --job-name=seper-reward
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --output=%x-%j.out
set -euo pipefail

export GPUS=${SLURM_GPUS_ON_NODE:-8}
HOST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)  # reads all: head would close the pipe, which pipefail takes for a failure
export HOST

# shellcheck disable=SC2016  # each node fills in its own variables
srun --kill-on-bad-exit=1 bash -c '
  accelerate launch --config_file configs/accelerate/two_nodes.yaml \
    --num_machines "$SLURM_NNODES" --num_processes "$((SLURM_NNODES * GPUS))" \
    --machine_rank "$SLURM_NODEID" --main_process_ip "$HOST" \
    -m seper_reward "$@"
' node "$@"
