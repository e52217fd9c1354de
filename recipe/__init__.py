"""What plugs into verl: the Hydra entry point, preflight, the dynamic sampler, the trainer and the CPU platform."""
