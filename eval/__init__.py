"""Evaluation: asking a served model or sampling one offline, grading with `reward`, statistics, comparison."""
