"""Where batches are trained: this process, others on this machine, Ray, SLURM."""
