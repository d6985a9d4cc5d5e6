"""What reads and judges the files of the suite, without any of its code: every answer is derived again."""
