"""Statistics of samples and tests of hypotheses; knows no files."""
