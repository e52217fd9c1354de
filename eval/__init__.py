"""Evaluation: sampling a model, grading with `reward`, statistics over problems."""
