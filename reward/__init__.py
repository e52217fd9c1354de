"""Math reward shared by training and evaluation: extraction, grading, overlong punishment, verl's reward manager."""
