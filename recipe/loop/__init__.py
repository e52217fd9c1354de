"""The whole loop of one run, phase by phase: data, base model, evaluation, training, export, evaluation, summary."""
